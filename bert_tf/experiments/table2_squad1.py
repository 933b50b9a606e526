"""Table 2: SQuAD 1.1.

Command:  bert-tf reproduce table2 --scale paper --data DATA --tasks TASKS --output DIR
Data:     TASKS with squad/train-v1.1.json and squad/dev-v1.1.json
Hardware: as table 1; fine-tuning took half an hour on a Cloud TPU (section 4); not run here.
Paper:    development set, exact match and F1: Base 80.8 and 88.5, Large 84.1 and 90.9.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (Column("EM", "squad1", "exact"), Column("F1", "squad1", "f1"))


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    base = scale.pretraining()
    if scale.is_laptop:
        rows = (
            Row("random weights", base, flags=("--from_scratch",)),
            Row("pre-trained", base, (80.8, 88.5), "BERT Base"),
        )
        comparisons = (("pre-trained", "random weights"),)
    else:
        large = scale.sized(24, 1024, 16)
        rows = (Row("BERT Base", base, (80.8, 88.5)), Row("BERT Large", large, (84.1, 90.9)))
        comparisons = (("BERT Large", "BERT Base"),)
    return Table("table2", "SQuAD 1.1", "arXiv 1810.04805, table 2", COLUMNS, rows, comparisons)
