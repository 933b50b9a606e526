"""Table 7: BERT as a source of features for named entity recognition.

Command:  bert-tf reproduce table7 --scale laptop --data DATA --tasks TASKS --output DIR
Data:     `bert-tf data --max_seq_length 64` of Wikipedia; TASKS with ner/
Hardware: two CPU cores at the laptop's scale; the paper's was not run.
Time:     a pre-training of 43 minutes and 21 fine-tunings of one to six minutes,
          one core for each (docs/reproduction.md).
Paper:    F1 on CoNLL-2003's development set: fine-tuned 96.4; the last four layers concatenated 96.1, embeddings 91.0.
"""

from __future__ import annotations

from bert_tf.experiments.design import Column, Row, Table
from bert_tf.experiments.scales import Scale

COLUMNS = (Column("Dev F1", "ner", "f1"),)
# Rows of the paper by the combination of layers; a laptop's model may have fewer than four layers.
FEATURES = {
    "embeddings": ("Embeddings", 91.0),
    "second_to_last": ("Second-to-last hidden", 95.6),
    "last": ("Last hidden", 94.9),
    "weighted_sum_last_4": ("Weighted sum of the last four", 95.9),
    "concat_last_4": ("Concatenation of the last four", 96.1),
    "weighted_sum_all": ("Weighted sum of all layers", 95.5),
}


def table(scale: Scale) -> Table:
    """Returns the table at a scale."""
    start = scale.sized(4, 256, 4) if scale.is_laptop else scale.pretraining()
    # BERT's own recipe for the BiLSTM is two layers of 768 (section 5.3).
    width = ("--bilstm_dim", "128") if scale.is_laptop else ()
    rows = [Row("Fine-tuned", start, (96.4,))]
    for name, (label, paper) in FEATURES.items():
        rows.append(Row(label, start, (paper,), flags=("--features", name, *width)))
    comparisons = (
        ("Fine-tuned", "Concatenation of the last four"),
        ("Concatenation of the last four", "Last hidden"),
        ("Last hidden", "Embeddings"),
        ("Second-to-last hidden", "Last hidden"),
    )
    return Table("table7", "Features for named entity recognition", "arXiv 1810.04805, table 7", COLUMNS, rows,
                 comparisons)  # fmt: skip
