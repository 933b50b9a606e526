from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.optim.optimizers import dense
from bert_tf.training.backends import precision_scope
from bert_tf.training.backends.tensorflow import TensorFlowTrainingModel
from bert_tf.training.distributed import strategies
from bert_tf.training.distributed.strategies import strategy_scope
from tests.support.layers.short_parts import short_parts
from tests.support.training.tiny_run import CONFIG, run
from tests.support.training.workers import in_subprocess


@pytest.mark.parametrize(
    ("precision", "compute"), [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16")]
)
def test_precision_applies_inside_the_scope_only(precision, compute):
    before = keras.config.dtype_policy().name
    with precision_scope(TrainingConfig(precision=precision)):
        layer = keras.layers.Dense(2)
    layer.build((1, 3))
    assert (layer.compute_dtype, layer.kernel.dtype) == (compute, "float32")
    assert keras.config.dtype_policy().name == before


def test_precision_is_restored_after_an_error():
    before = keras.config.dtype_policy().name
    with pytest.raises(RuntimeError, match="boom"), precision_scope(TrainingConfig(precision="bfloat16")):
        raise RuntimeError("boom")
    assert keras.config.dtype_policy().name == before


def test_strategy_none_is_the_default_of_tensorflow():
    with strategy_scope(TrainingConfig()) as strategy:
        assert strategy.num_replicas_in_sync == 1


def test_several_replicas_without_a_strategy_are_refused():
    config = TrainingConfig(strategy="none", num_replicas=2)
    with pytest.raises(ConfigError, match=r"needs `training.strategy` = mirrored. Received: 2"), strategy_scope(config):
        pass


def test_splitting_the_cpu_too_late_is_refused():
    tf.constant(1)
    with (
        pytest.raises(ConfigError, match="before TensorFlow has run anything"),
        strategy_scope(TrainingConfig(strategy="mirrored", num_replicas=8)),
    ):
        raise RuntimeError("not reached")


def test_sums_and_gradients_of_one_replica_are_unchanged():
    tensor = tf.constant([1.0])
    assert TensorFlowTrainingModel.over_replicas(None, [tensor])[0] is tensor
    assert dense(tensor) is tensor


def test_batch_must_divide_by_the_replicas(monkeypatch):
    monkeypatch.setattr(strategies, "_replica_devices", lambda count: ["CPU:0"] * count)
    config = TrainingConfig(strategy="mirrored", num_replicas=2, batch_size=7)
    with (
        pytest.raises(ConfigError, match="`training.batch_size` must be a multiple .* Received: 7, 2 and 1"),
        strategy_scope(config),
    ):
        raise RuntimeError("not reached")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("precision", "body"), [("float32", ""), ("float32", "modern"), pytest.param("float16", "", marks=pytest.mark.slow)]
)
def test_two_replicas_equal_one(tmp_path, precision, body):
    """Most mask weights are in the first replica's half, and the gradients are clipped."""
    with short_parts() if body else contextlib.nullcontext():
        one = run(tmp_path / "one", replace(CONFIG, precision=precision), dropout=0.0, body=body)
    settings = ('strategy="mirrored"', "num_replicas=2", "dropout=0", f'precision="{precision}"', f'body="{body}"')
    result = in_subprocess(tmp_path / "two", *settings)
    assert result.returncode == 0, result.stderr
    two = json.loads(result.stdout.splitlines()[-1])
    tolerance = 1e-5 if precision == "float32" else 2e-3
    assert two["loss"] == pytest.approx(one.loss, rel=tolerance)
    assert two["evaluation"] == pytest.approx(one.evaluation, rel=tolerance)
    with np.load(tmp_path / "two.npz") as weights:
        for variable, array in zip(one.model.trainable_weights, weights.values(), strict=True):
            np.testing.assert_allclose(variable.numpy(), array, atol=tolerance, rtol=tolerance)
