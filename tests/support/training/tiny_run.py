"""A small pre-training run for tests, as functions and as a command for subprocesses.

    python tiny_run.py OUTPUT [field=value ...]

OUTPUT is a path or a URL.
Fields are those of TrainingConfig, and `dropout`, `kill_at` (SIGKILL while that step's batch is made), `signal_at`
(SIGTERM to itself), `signal_at_evaluation` (1: to itself in every evaluation), `nan_at` (weights that make the loss
NaN), `hang_at` (prints this to stderr, and the batch never arrives), `deterministic`, `body` (of an encoder
with attention in short parts). The last line of stdout is JSON.
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import contextlib
import json
import os
import signal
import sys
import threading
from dataclasses import fields, replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.reports.training import write_report
from bert_tf.training.fit import fit, weights_sha256
from bert_tf.training.run_spec import RunSpec, TrainingData
from tests.support.layers.short_parts import short_parts

VOCABULARY, HIDDEN, LENGTH, PREDICTIONS = 50, 16, 12, 3
CONFIG = TrainingConfig(
    steps=12, batch_size=8, learning_rate=1e-2, checkpoint_every=5, log_every=4, evaluate_every=0, seed=7
)


def build_model(dropout: float = 0.1, body: str = "") -> keras.Model:
    """Builds a model of a few layers, or BERT with an encoder of that body."""
    if body:
        config = BertConfig(
            VOCABULARY, HIDDEN, num_layers=3, num_heads=2, intermediate_dim=24, max_sequence_length=LENGTH,
            dropout=dropout, body=body, global_attention_every=2, local_attention=4,
        )  # fmt: skip
        return BertPretrainer(BertBackbone(config))
    inputs = {
        name: keras.Input((length,), dtype="int32", name=name)
        for name, length in (
            (TOKEN_IDS, LENGTH),
            (SEGMENT_IDS, LENGTH),
            (PADDING_MASK, LENGTH),
            (MASK_POSITIONS, PREDICTIONS),
        )
    }
    embedding = keras.layers.Embedding(VOCABULARY, HIDDEN, name="token_embedding")
    hidden = embedding(inputs[TOKEN_IDS]) + keras.layers.Embedding(2, HIDDEN)(inputs[SEGMENT_IDS])
    hidden = keras.layers.LayerNormalization(name="embeddings_layer_norm")(hidden)
    hidden = keras.layers.Dropout(dropout)(hidden)
    # A hidden matrix in the optimizer's eyes: its name and its layer's are those of the encoder.
    dense = keras.layers.Dense(HIDDEN, activation="tanh", name="feedforward_output_dense")
    hidden = keras.Sequential([dense], name="layer_1")(hidden)
    hidden = hidden + keras.layers.GlobalAveragePooling1D(keepdims=True)(hidden)
    masked = keras.ops.take_along_axis(hidden, keras.ops.expand_dims(inputs[MASK_POSITIONS], -1), axis=1)
    mlm = keras.layers.Dense(VOCABULARY, dtype="float32")(masked)
    nsp = keras.layers.Dense(2, dtype="float32")(hidden[:, 0])
    return keras.Model(inputs, {MLM_LOGITS: mlm, NSP_LOGITS: nsp})


def batch(step: int, batch_size: int):
    """Returns the batch of one step; most weights are in its first half."""
    random = np.random.default_rng(step)
    inputs = {
        TOKEN_IDS: random.integers(0, VOCABULARY, (batch_size, LENGTH)),
        SEGMENT_IDS: random.integers(0, 2, (batch_size, LENGTH)),
        PADDING_MASK: np.arange(LENGTH) < random.integers(4, LENGTH + 1, (batch_size, 1)),
        MASK_POSITIONS: random.integers(0, 4, (batch_size, PREDICTIONS)),
    }
    targets = {
        MLM_LOGITS: np.take_along_axis(inputs[TOKEN_IDS], inputs[MASK_POSITIONS], 1),
        NSP_LOGITS: inputs[SEGMENT_IDS][:, 0],
    }
    share = np.where(np.arange(batch_size) < batch_size // 2, 0.9, 0.2)[:, None]
    weights = {
        MLM_LOGITS: random.random((batch_size, PREDICTIONS)) < share,
        NSP_LOGITS: random.random(batch_size) < share[:, 0],
    }
    as_int = {k: v.astype(np.int32) for k, v in inputs.items()}
    return (
        as_int,
        {k: v.astype(np.int32) for k, v in targets.items()},
        {k: v.astype(np.float32) for k, v in weights.items()},
    )


def dataset(batch_size: int, start: int = 0, stop: int | None = None, at_step=None) -> tf.data.Dataset:
    """Returns batches of steps `start` to `stop` (None: endless); `at_step(step, batch)` may change them or act."""

    def batches():
        step = start
        while stop is None or step < stop:
            made = batch(step, batch_size)
            yield at_step(step, made) if at_step else made
            step += 1

    def spec(values):
        return {k: tf.TensorSpec(v.shape, tf.as_dtype(v.dtype)) for k, v in values.items()}

    signature = tuple(spec(part) for part in batch(0, batch_size))
    # Without tf.data's autotuning: in TensorFlow 2.21 the deletion of an iterator may wait a minute for its thread.
    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_generator(batches, output_signature=signature).with_options(options)


def loss_of(training, inputs, targets, logits, weights):
    """Returns the loss of a batch and updates the metrics of a training model."""
    sums = training.weighted_sums(targets, logits, weights)
    training.note(inputs, sums)
    return training.share_of(sums, training.total_weights(targets, weights))


def run(
    output: str | Path,
    config: TrainingConfig = CONFIG,
    dropout: float = 0.1,
    at_step=None,
    identity=None,
    at_evaluation=None,
    body: str = "",
):
    data = TrainingData(
        lambda start: dataset(config.batch_size, start, at_step=at_step),
        lambda _: dataset(config.batch_size, 10_000, 10_003, at_evaluation),
    )
    spec = RunSpec(lambda: build_model(dropout, body), data, identity=identity or {}, on_report=write_report)
    return fit(spec, config, output)


def _main(output: str, *settings: str) -> None:
    values = {key: json.loads(value) for key, value in (setting.split("=") for setting in settings)}
    names = {field.name for field in fields(TrainingConfig)}
    config = replace(CONFIG, **{k: v for k, v in values.items() if k in names})
    if values.get("deterministic"):
        tf.config.experimental.enable_op_determinism()

    def at_step(step, made):
        if step == values.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == values.get("signal_at"):
            os.kill(os.getpid(), signal.SIGTERM)
        if step == values.get("hang_at"):
            print("hanging", file=sys.stderr, flush=True)
            threading.Event().wait()
        if step == values.get("nan_at"):
            made[2][MLM_LOGITS][0, 0] = np.nan
        return made

    def at_evaluation(step, made):
        if values.get("signal_at_evaluation") and step == 10_000:
            os.kill(os.getpid(), signal.SIGTERM)
        return made

    is_url = "://" in output
    with short_parts() if values.get("body") else contextlib.nullcontext():
        result = run(
            output if is_url else Path(output),
            config,
            values.get("dropout", 0.1),
            at_step,
            at_evaluation=at_evaluation,
            body=values.get("body", ""),
        )
    summary = {
        "step": result.step,
        "loss": result.loss,
        "evaluation": result.evaluation,
        "tokens_per_second": result.tokens_per_second,
        "weights_sha256": weights_sha256(result.model),
    }
    print(json.dumps(summary))
    if is_url:
        return
    worker = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": ""}}'))["task"]["index"]
    np.savez(
        Path(output).with_suffix(f".{worker}.npz" if worker != "" else ".npz"),
        *[v.numpy() for v in result.model.trainable_weights],
    )


if __name__ == "__main__":
    _main(*sys.argv[1:])
