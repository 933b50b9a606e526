"""bert_tf's fine-tuning with its own `fit`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers import batches
from benchmarks.peers.ours import NEVER, listen
from benchmarks.peers.rows import BATCH_SIZE, LEARNING_RATE, Rows, read_rows
from benchmarks.peers.session import Session, limit_threads
from bert_tf.config import TrainingConfig
from bert_tf.data.schema import END_LOGITS, SINGLE_OUTPUT, START_LOGITS
from bert_tf.encoding.batches import training_batches
from bert_tf.encoding.rows import EncodedRows
from bert_tf.models import BertBackbone, BertSpanPredictor, BertTextClassifier
from bert_tf.training.fit import fit
from bert_tf.training.losses import CLASSIFICATION, SPANS
from bert_tf.training.malloc import tune_allocator
from bert_tf.training.run_spec import EvaluationSpec, RunSpec, TrainingData

_NAMES = {"label": SINGLE_OUTPUT, "start": START_LOGITS, "end": END_LOGITS}


def encoded(rows: Rows) -> EncodedRows:
    """Returns the rows in the format of a task."""
    targets = {_NAMES[name]: values for name, values in rows.targets.items()}
    return EncodedRows(rows.token_ids, rows.row_splits, rows.first_lengths, 0, targets, examples=np.arange(len(rows)))


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="file of `rows.write_rows`")
    parser.add_argument("--output", type=Path, required=True, help="output directory of the run, which never finishes")
    args = parser.parse_args()
    tune_allocator()
    limit_threads(args.threads)
    listen(Session(), "tokens")
    rows = read_rows(args.rows)
    data, is_label = encoded(rows), "label" in rows.targets
    config = TrainingConfig(
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        precision=args.precision,
        epochs=1,
        log_every=NEVER,
        checkpoint_every=NEVER,
    )

    def build() -> BertTextClassifier | BertSpanPredictor:
        backbone = BertBackbone(batches.config_of(args.size))
        return BertTextClassifier(backbone, rows.num_labels) if is_label else BertSpanPredictor(backbone)

    training_data = TrainingData(lambda start: training_batches(data, BATCH_SIZE, config.seed, start))
    run = RunSpec(build, training_data, batches.STEPS, CLASSIFICATION if is_label else SPANS, EvaluationSpec(every=0))
    fit(run, config, args.output)


if __name__ == "__main__":
    main()
