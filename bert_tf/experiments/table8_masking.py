"""Table 8: the effect of the masking procedure.

Command:  bert-tf reproduce table8 --scale laptop --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 64` of Wikipedia; TASKS with glue/ and ner/
Hardware: two CPU cores at the laptop's scale; the paper's was not run.
Time:     6 pre-trainings of 6 to 18 minutes and 54 fine-tunings of 20 to 118 seconds,
          one core for each (docs/reproduction.md).
Paper:    MNLI lies between 83.6 and 84.4 for all shares, NER on features between 94.0 and 94.9.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

# Percent of the predicted tokens that become [MASK], stay the same, and become a random token; and the paper's values.
SHARES = {
    (80, 10, 10): (84.2, 95.4, 94.9),
    (100, 0, 0): (84.3, 94.9, 94.0),
    (80, 0, 20): (84.1, 95.2, 94.6),
    (80, 20, 0): (84.4, 95.2, 94.7),
    (0, 20, 80): (83.7, 94.8, 94.6),
    (0, 0, 100): (83.6, 94.9, 94.6),
}
# The last four layers, concatenated; a laptop's model has two layers.
FEATURES = {True: ("--features", "last", "--bilstm_dim", "128"), False: ("--features", "concat_last_4")}


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    rows = []
    for (mask, same, random), paper in SHARES.items():
        name = f"{mask} / {same} / {random}"
        start = scale.pretraining()
        if (mask, random) != (80, 10):
            start = scale.pretraining(
                f"mask{mask}_random{random}", training__mask_share=mask / 100, training__random_share=random / 100
            )
        rows.append(Row(name, start, paper))
    comparisons = [(rows[0].label, row.label) for row in rows[1:]]
    columns = (
        Column("MNLI-m", "mnli", "accuracy"),
        Column("NER fine-tuned", "ner", "f1"),
        Column("NER features", "ner", "f1", flags=FEATURES[scale.is_laptop]),
    )
    return Table("table8", "Effect of the masking procedure", "arXiv 1810.04805, table 8", columns, rows, comparisons,
                 notes="Rows are percent [MASK] / same / random.")  # fmt: skip
