"""Parity with the original: gradients of one step, and losses of a hundred steps."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.data.schema import NSP_LOGITS
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.training.fit import fit
from bert_tf.training.losses import PRETRAINING, TrainingModel
from bert_tf.training.run_spec import RunSpec, TrainingData
from tests.support.training.original_training import AdamWeightDecay, Settings, total_loss
from tests.support.training.tiny_run import LENGTH, VOCABULARY, batch, dataset, loss_of

BERT = BertConfig(VOCABULARY, 16, 2, 2, 32, max_sequence_length=LENGTH, dropout=0.0, initializer_range=0.1)
ORIGINAL = Settings(layers=2, heads=2, peak=3e-3, warmup=10, steps=100)
CONFIG = TrainingConfig(
    steps=ORIGINAL.steps,
    batch_size=8,
    learning_rate=ORIGINAL.peak,
    warmup_steps=ORIGINAL.warmup,
    schedule="original",
    bias_correction=False,
    log_every=1,
    seed=3,
)


def batch_of(step):
    """Returns a batch with next sentence weights of 1, because the original has no such weights."""
    inputs, targets, weights = batch(step, CONFIG.batch_size)
    return inputs, targets, weights | {NSP_LOGITS: np.ones(CONFIG.batch_size, np.float32)}


def built() -> keras.Model:
    keras.utils.set_random_seed(CONFIG.seed)
    return BertPretrainer(BertBackbone(BERT))


def in_float64(model):
    return {v.path: tf.Variable(v.numpy(), dtype=tf.float64) for v in model.trainable_weights}


def gradients_of(weights, settings, made):
    with tf.GradientTape() as tape:
        loss = total_loss(weights, settings, *made)
    found = tape.gradient(loss, list(weights.values()))
    return loss, {name: tf.convert_to_tensor(g).numpy() for name, g in zip(weights, found, strict=True)}


def test_gradients_of_one_step():
    model = built()
    training = TrainingModel(model, PRETRAINING)
    inputs, targets, weights = batch_of(0)
    with tf.GradientTape() as tape:
        loss = loss_of(training, inputs, targets, training(inputs, training=True), weights)
    found = tape.gradient(loss, model.trainable_weights)
    expected_loss, expected = gradients_of(in_float64(model), ORIGINAL, (inputs, targets, weights))
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-6)
    largest = max(np.abs(g).max() for g in expected.values())
    for variable, gradient in zip(model.trainable_weights, found, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            expected[variable.path],
            rtol=1e-4,
            atol=1e-5 * largest,
            err_msg=variable.path,
        )


@pytest.mark.slow
def test_losses_of_a_hundred_steps(tmp_path):
    data = TrainingData(lambda start: dataset(CONFIG.batch_size, start, at_step=lambda step, _: batch_of(step)))
    fit(RunSpec(built, data), CONFIG, tmp_path)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    weights = in_float64(built())
    optimizer = AdamWeightDecay(weights, ORIGINAL)
    expected = []
    for step in range(ORIGINAL.steps):
        loss, gradients = gradients_of(weights, ORIGINAL, batch_of(step))
        expected.append(float(loss))
        optimizer.apply(weights, gradients)
    assert expected[-1] < 0.8 * expected[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
