"""Table 4: SWAG.

Command:  bert-tf reproduce table4 --scale paper --data DATA --tasks TASKS --output DIR
Data:     TASKS with swag/train.csv and swag/val.csv
Hardware: as table 1; not run here.
Paper:    development set, accuracy: Base 81.6, Large 86.6.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (Column("Dev", "swag", "accuracy"),)


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    base = scale.pretraining()
    if scale.is_laptop:
        rows = (Row("random weights", base, flags=("--from_scratch",)), Row("pre-trained", base, (81.6,), "BERT Base"))
        comparisons = (("pre-trained", "random weights"),)
    else:
        rows = (Row("BERT Base", base, (81.6,)), Row("BERT Large", scale.sized(24, 1024, 16), (86.6,)))
        comparisons = (("BERT Large", "BERT Base"),)
    return Table("table4", "SWAG", "arXiv 1810.04805, table 4", COLUMNS, rows, comparisons)
