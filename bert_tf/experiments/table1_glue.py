"""Table 1: GLUE.

Command:  bert-tf reproduce table1 --scale paper --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 128,512` of Wikipedia and books; TASKS with glue/CoLA, glue/MNLI ...
Hardware: the paper used 4 Cloud TPUs (Base) and 16 (Large) for four days each; not run here.
Paper:    GLUE test, average 79.6 (Base) and 82.1 (Large). This table has the development sets; `bert-tf glue` also
          writes predictions for the test sets.

At the laptop's scale the rows are the same encoder with random and with pre-trained weights: a pre-training of 18
minutes and 36 fine-tunings of 18 to 92 seconds, one CPU core for each (docs/reproduction.md).
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.glue.published import PUBLISHED
from bert_tf.experiments.glue.tasks import TASKS
from bert_tf.experiments.scales import Scale

COLUMNS = (
    Column("MNLI-m", "mnli", "accuracy"),
    Column("QQP", "qqp", "f1"),
    Column("QNLI", "qnli", "accuracy"),
    Column("SST-2", "sst2", "accuracy"),
    Column("CoLA", "cola", "matthews"),
    Column("STS-B", "stsb", "spearman"),
    Column("MRPC", "mrpc", "f1"),
    Column("RTE", "rte", "accuracy"),
)


def _published(model: str) -> tuple[float | None, ...]:
    """Returns the paper's values for the columns."""
    metrics = next(row.metrics for row in PUBLISHED if row.name == model)
    return tuple(metrics[column.task][TASKS[column.task].metrics.index(column.metric)] for column in COLUMNS)


BASE, LARGE = _published("BERT Base"), _published("BERT Large")


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    base = scale.pretraining()
    if scale.is_laptop:
        rows = (
            Row("random weights", base, flags=("--from_scratch",)),
            Row("pre-trained", base, BASE, "BERT Base, test"),
        )
        comparisons = (("pre-trained", "random weights"),)
    else:
        large = scale.sized(24, 1024, 16)
        rows = (Row("BERT Base", base, BASE), Row("BERT Large", large, LARGE))
        comparisons = (("BERT Large", "BERT Base"),)
    return Table("table1", "GLUE", "arXiv 1810.04805, table 1", COLUMNS, rows, comparisons,
                 notes="The paper's numbers are of the test sets, ours of the development sets.")  # fmt: skip
