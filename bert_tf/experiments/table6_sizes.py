"""Table 6: the effect of the model's size.

Command:  bert-tf reproduce table6 --scale laptop --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 64` of Wikipedia; TASKS with glue/
Hardware: two CPU cores at the laptop's scale; the paper's was not run.
Time:     4 pre-trainings of 8 to 43 minutes and 36 fine-tunings of half a minute to six minutes,
          one core for each (docs/reproduction.md).
Paper:    perplexity of masked words falls from 5.84 (3 layers) to 3.23 (24 layers), MNLI rises from 77.9 to 86.6.

The paper's sizes are too large for a laptop; its rows stand beside smaller sizes with the same order.
"""

from __future__ import annotations

from itertools import pairwise

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (
    Column("LM perplexity", "", "mlm_perplexity", lower_is_better=True),
    Column("MNLI-m", "mnli", "accuracy"),
    Column("MRPC", "mrpc", "accuracy"),
    Column("SST-2", "sst2", "accuracy"),
)
# Layers, hidden size and heads in the paper, with its values.
PAPER = {
    (3, 768, 12): (5.84, 77.9, 79.8, 88.4),
    (6, 768, 3): (5.24, 80.6, 82.2, 90.7),
    (6, 768, 12): (4.68, 81.9, 84.8, 91.3),
    (12, 768, 12): (3.99, 84.4, 86.7, 92.9),
    (12, 1024, 16): (3.54, 85.7, 86.9, 93.3),
    (24, 1024, 16): (3.23, 86.6, 87.8, 93.7),
}
# Sizes of the laptop's scale, and the rows of the paper in whose place they are.
LAPTOP = {
    (1, 128, 2): (3, 768, 12),
    (2, 128, 2): (6, 768, 12),
    (4, 128, 2): (12, 768, 12),
    (4, 256, 4): (12, 1024, 16),
}


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    rows = []
    for size in LAPTOP if scale.is_laptop else PAPER:
        paper = LAPTOP[size] if scale.is_laptop else size
        rows.append(Row(_label(size), scale.sized(*size), PAPER[paper], _label(paper)))
    comparisons = [(larger.label, smaller.label) for smaller, larger in pairwise(rows)]
    return Table("table6", "Effect of the model's size", "arXiv 1810.04805, table 6", COLUMNS, rows, comparisons,
                 notes="Rows are layers / hidden size / attention heads.")  # fmt: skip


def _label(size: tuple[int, int, int]) -> str:
    return " / ".join(map(str, size))
