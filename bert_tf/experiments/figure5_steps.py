"""Figure 5: the effect of the number of training steps.

Command:  bert-tf reproduce figure5 --scale laptop --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 64` of Wikipedia; TASKS with glue/
Hardware: two CPU cores at the laptop's scale; the paper's was not run.
Time:     2 pre-trainings of 18 and 23 minutes and 30 fine-tunings of 66 to 89 seconds,
          one core for each (docs/reproduction.md).
Paper:    MNLI rises by about 1.0 from 500,000 to a million steps; masked language models converge more slowly than
          left-to-right ones, but are better almost at once. The paper's values are drawn in a figure, without numbers.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import FIGURE_SHARES, Scale

COLUMNS = (Column("MNLI-m", "mnli", "accuracy"),)


def table(scale: Scale) -> Table:
    """Returns the figure at a scale."""
    ltr = scale.pretraining(
        "ltr", training__objective="causal_lm", training__nsp_weight=0.0, model__attention="left_to_right"
    )
    steps = [round(scale.steps * share) for share in FIGURE_SHARES]
    rows = [
        Row(f"{series}, step {step:,}", start, step=step, series=series)
        for series, start in (("masked language model", scale.pretraining()), ("left to right", ltr))
        for step in steps
    ]
    comparisons = [(rows[position].label, rows[position + len(steps)].label) for position in range(len(steps))]
    return Table("figure5", "Effect of the number of training steps", "arXiv 1810.04805, figure 5", COLUMNS, rows,
                 comparisons, figure=True)  # fmt: skip
