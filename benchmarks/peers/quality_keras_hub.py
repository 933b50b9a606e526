"""keras-hub's `BertBackbone` and `MaskedLMHead` on the batches of `time_to_quality`, with Keras's AdamW."""

from __future__ import annotations

import json

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers import quality
from benchmarks.peers.keras_hub import build_model
from benchmarks.peers.session import Session, limit_threads
from bert_tf.config import BertConfig
from bert_tf.config.base import from_dict


def main() -> None:
    """Trains on all batches."""
    args = quality.arguments(__doc__).parse_args()
    limit_threads(args.threads)
    session = Session()
    keras.utils.set_random_seed(0)
    shape = json.loads((args.batches / quality.MODEL_NAME).read_text())
    model = build_model(from_dict(BertConfig, shape | {"dropout": args.dropout}))
    optimizer = keras.optimizers.AdamW(
        args.rate, weight_decay=quality.WEIGHT_DECAY, epsilon=quality.EPSILON, global_clipnorm=quality.CLIP_NORM
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    names = ("mlm", "nsp")
    losses = {
        name: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        for name in names
    }
    model.compile(optimizer, losses, jit_compile=False)
    session.tell(parameters=model.count_params())
    inputs = ("token_ids", "segment_ids", "padding_mask", "mask_positions")

    def step(batch: quality.Batch, rate: float) -> None:
        optimizer.learning_rate.assign(rate)
        weights = {"mlm": batch["mask_weights"], "nsp": np.ones(len(batch["mask_ids"]), "float32")}
        targets = {"mlm": batch["mask_ids"], "nsp": batch["next_sentence_labels"]}
        model.train_on_batch({name: batch[name] for name in inputs}, targets, weights)

    @tf.function
    def evaluated(values, ids):
        return keras.ops.sparse_categorical_crossentropy(ids, model(values, training=False)["mlm"], from_logits=True)

    def losses_of(batch: quality.Batch) -> np.ndarray:
        return evaluated({name: tf.constant(batch[name]) for name in inputs}, batch["mask_ids"]).numpy()

    quality.train(session, args, step, losses_of)


if __name__ == "__main__":
    main()
