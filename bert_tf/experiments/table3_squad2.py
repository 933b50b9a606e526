"""Table 3: SQuAD 2.0.

Command:  bert-tf reproduce table3 --scale paper --data DATA --tasks TASKS --output DIR
Data:     TASKS with squad/train-v2.0.json and squad/dev-v2.0.json
Hardware: as table 1; not run here.
Paper:    development set, exact match and F1 of Large: 78.7 and 81.9.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (Column("EM", "squad2", "exact"), Column("F1", "squad2", "f1"))
LARGE = (78.7, 81.9)


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    title, source = "SQuAD 2.0", "arXiv 1810.04805, table 3"
    if not scale.is_laptop:
        return Table("table3", title, source, COLUMNS, [Row("BERT Large", scale.sized(24, 1024, 16), LARGE)])
    base = scale.pretraining()
    rows = (
        Row("random weights", base, flags=("--from_scratch",)),
        Row("pre-trained", base, LARGE, "BERT Large"),
    )
    comparisons = (("pre-trained", "random weights"),)
    return Table("table3", title, source, COLUMNS, rows, comparisons)
