"""Tests of TPU training that need no TPU: the step compiles, and a missing TPU is reported."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, TrainingConfig
from bert_tf.models import BertBackbone, BertPretrainer
from bert_tf.optim.build import make_optimizer
from bert_tf.training.backends import precision_scope
from bert_tf.training.backends.tensorflow import TensorFlowTrainingModel
from bert_tf.training.losses import PRETRAINING
from tests.support.training.tiny_run import batch

ROWS = 8


def stepped(
    compiled: bool, config: TrainingConfig, dropout: float = 0.0
) -> tuple[TensorFlowTrainingModel, list[float]]:
    """Takes three steps on static shapes, by XLA or without; returns the model and the losses."""
    keras.utils.set_random_seed(3)
    small = BertConfig(
        vocabulary_size=50, hidden_dim=16, num_layers=2, num_heads=2, intermediate_dim=32, max_sequence_length=12,
        dropout=dropout,
    )  # fmt: skip
    with precision_scope(config):
        model = BertPretrainer(BertBackbone(small))
    training = TensorFlowTrainingModel(model, PRETRAINING, config.accumulate)
    training.compile(optimizer=make_optimizer(config, 10, model.trainable_variables))
    batches = [batch(step, ROWS) for step in range(3)]
    signature = tf.nest.map_structure(lambda values: tf.TensorSpec(values.shape, values.dtype), batches[0])
    step = tf.function(training.train_step, input_signature=[signature], jit_compile=compiled)
    return training, [float(step(tf.nest.map_structure(tf.constant, data))) for data in batches]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"accumulate": 2, "optimizer": "lamb", "average": 0.9}])
def test_the_step_compiles_and_computes_the_same(fields):
    config = TrainingConfig(batch_size=ROWS, learning_rate=1e-3, **fields)
    (plain, losses), (compiled, compiled_losses) = stepped(False, config), stepped(True, config)
    assert losses == pytest.approx(compiled_losses, rel=1e-4)
    assert int(compiled.optimizer.iterations) == 3
    assert plain.results() == pytest.approx(compiled.results(), rel=1e-4, abs=1e-4)
    for one, other in zip(plain.model.trainable_weights, compiled.model.trainable_weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-4)


@pytest.mark.slow
def test_the_step_compiles_with_dropout_in_bfloat16():
    """XLA draws other dropout masks."""
    config = TrainingConfig(batch_size=ROWS, learning_rate=1e-3, precision="bfloat16")
    training, losses = stepped(True, config, dropout=0.1)
    assert losses == pytest.approx([math.log(50) + math.log(2)] * 3, abs=0.5)
    assert training.results()["loss"] == pytest.approx(np.mean(losses), abs=0.1)
