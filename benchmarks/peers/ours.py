"""bert_tf's `fit` on the shared batches or on a data directory."""

from __future__ import annotations

import argparse
from pathlib import Path

import tensorflow as tf

from benchmarks.peers import batches
from benchmarks.peers.session import Session, limit_threads
from bert_tf.config import RunConfig, TrainingConfig, with_overrides
from bert_tf.data.manifest import read_manifest
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.pretraining import run as pretraining
from bert_tf.training import fit
from bert_tf.training.loop.callback import TrainingCallback
from bert_tf.training.run_spec import RunSpec, TrainingData

NEVER = 10**9


def listen(session: Session, count: str) -> None:
    """Makes all runs of this process report their steps to `session`.

    Args:
        session: session that receives every step.
        count: unit of work, `tokens` (without padding) or `examples` (in batches of equal size).
    """

    class TimedEvents(TrainingCallback):
        """Reports every step after the events of the run."""

        def on_train_begin(self, logs=None):
            super().on_train_begin(logs)
            self._before = 0.0
            session.tell(parameters=sum(variable.shape.num_elements() for variable in self.model.trainable_weights))

        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            tokens = float(self.model.tokens.result())
            units = tokens - self._before if count == "tokens" else batches.SEQUENCES
            # The mean of all steps, like Keras's.
            session.after_step(lambda: self.model.results()["loss"], units)
            self._before = tokens

    fit.TrainingCallback = TimedEvents  # type: ignore[misc]


def synthetic(start: int) -> tf.data.Dataset:
    """Returns the shared batches, repeated endlessly."""
    del start
    arrays = batches.batches()
    inputs = {name: arrays[name] for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK, MASK_POSITIONS)}
    targets = {MLM_LOGITS: arrays["mask_ids"], NSP_LOGITS: arrays["next_sentence_labels"]}
    weights = {MLM_LOGITS: arrays["mask_weights"], NSP_LOGITS: arrays["next_sentence_weights"]}
    return tf.data.Dataset.from_tensor_slices((inputs, targets, weights)).repeat().prefetch(2)


def configuration(args: argparse.Namespace, vocabulary_size: int) -> RunConfig:
    """Returns the configuration of the run: the paper's optimization, without events during a round."""
    training = TrainingConfig(
        steps=batches.STEPS,
        batch_size=batches.SEQUENCES,
        learning_rate=batches.LEARNING_RATE,
        warmup_steps=batches.WARMUP_STEPS,
        weight_decay=batches.WEIGHT_DECAY,
        adam_epsilon=batches.EPSILON,
        clip_norm=batches.CLIP_NORM,
        precision=args.precision,
        log_every=NEVER,
        checkpoint_every=NEVER,
    )
    model = batches.config_of(args.size, vocabulary_size)
    return with_overrides(RunConfig(model=model, training=training), args.overrides)


def main() -> None:
    """Trains until stdin is closed."""
    parser = batches.arguments(__doc__)
    parser.add_argument("--data", type=Path, help="data directory; default: the shared batches")
    parser.add_argument("--count", choices=("tokens", "examples"), default="tokens", help="unit of work")
    parser.add_argument("--output", type=Path, required=True, help="output directory of the run, which never finishes")
    parser.add_argument("--set", dest="overrides", nargs="*", default=[], metavar="SECTION.FIELD=VALUE")
    args = parser.parse_args()
    limit_threads(args.threads)
    listen(Session(), args.count)
    if args.data:
        run = configuration(args, read_manifest(args.data).vocabulary_size)
        pretraining.run_pretraining(args.data, run, args.output)
    else:
        run = configuration(args, batches.VOCABULARY_SIZE)
        spec = RunSpec(lambda: BertPretrainer(BertBackbone(run.model)), TrainingData(synthetic))
        fit.fit(spec, run.training, args.output)


if __name__ == "__main__":
    main()
