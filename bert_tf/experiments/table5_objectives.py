"""Table 5: the effect of the pre-training tasks.

Command:  bert-tf reproduce table5 --scale laptop --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 64` of Wikipedia; TASKS with glue/ and squad/
Hardware: two CPU cores at the laptop's scale; the paper's was not run.
Time:     3 pre-trainings of 18 to 23 minutes and 60 fine-tunings of 20 to 270 seconds,
          one core for each (docs/reproduction.md).
Paper:    development sets: without next sentence prediction QNLI falls by 3.5, left to right MRPC falls by 9.0 and
          SQuAD F1 by 10.1 more; a BiLSTM returns 7.1 of the latter.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (
    Column("MNLI-m", "mnli", "accuracy"),
    Column("QNLI", "qnli", "accuracy"),
    Column("MRPC", "mrpc", "accuracy"),
    Column("SST-2", "sst2", "accuracy"),
    Column("SQuAD F1", "squad1", "f1"),
)


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    ltr = scale.pretraining(
        "ltr", training__objective="causal_lm", training__nsp_weight=0.0, model__attention="left_to_right"
    )
    width = ("--bilstm_dim", "128") if scale.is_laptop else ()
    rows = (
        Row("BERT", scale.pretraining(), (84.4, 88.4, 86.7, 92.7, 88.5), "BERT Base"),
        Row("No NSP", scale.pretraining("no_nsp", training__nsp_weight=0.0), (83.9, 84.9, 86.5, 92.6, 87.9)),
        Row("LTR & No NSP", ltr, (82.1, 84.3, 77.5, 92.1, 77.8)),
        Row("+ BiLSTM", ltr, (82.1, 84.1, 75.7, 91.6, 84.9), flags=("--bilstm", *width)),
    )
    comparisons = (("BERT", "No NSP"), ("No NSP", "LTR & No NSP"), ("+ BiLSTM", "LTR & No NSP"))
    return Table("table5", "Effect of the pre-training tasks", "arXiv 1810.04805, table 5", COLUMNS, rows, comparisons)
