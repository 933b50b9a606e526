"""Tests of TPU training that need no TPU: the step compiles, and a missing TPU is reported."""

from __future__ import annotations

import pytest
import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.data.input.tf import pretraining_dataset
from bert_tf.data.schema import MASK_POSITIONS, TOKEN_IDS
from bert_tf.training.distributed.tpu import tpu_strategy
from tests.support.training.data_directory import write_small_data
from tests.support.training.workers import free_ports

ROWS = 8


@pytest.mark.parametrize(
    ("name", "environment", "message"),
    [
        ("", {}, "has no TPU device.* `training.tpu_name` or TPU_NAME .*Received: ''"),
        ("local", {"TPU_NAME": "grpc://other:1"}, "has no TPU device.* Received: 'local'"),
        ("", {"TPU_NAME": "grpc://localhost:{port}"}, "no TPU answers at localhost:{port}. Received: 'grpc://"),
        ("localhost:{port}", {}, "no TPU answers at localhost:{port}."),
    ],
)
def test_missing_tpu_is_reported(name, environment, message):
    port = free_ports(1)[0]
    environment = {key: value.format(port=port) for key, value in environment.items()}
    with pytest.raises(ConfigError, match=message.format(port=port)):
        tpu_strategy(TrainingConfig(strategy="tpu", tpu_name=name.format(port=port)), environment)


def test_unknown_tpu_name_is_reported(monkeypatch):
    def resolver(name):
        raise ValueError(f"nothing is called {name}")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    with pytest.raises(ConfigError, match=r"finds no TPU called 'mine' \(nothing is called mine\)"):
        tpu_strategy(TrainingConfig(strategy="tpu", tpu_name="mine"), {})


@pytest.mark.parametrize("name", [TOKEN_IDS, MASK_POSITIONS])
def test_batches_are_static(name, tmp_path):
    """Batches of an evaluation are static too; its last rows are padded."""
    data = write_small_data(tmp_path)
    for split, training in (("train", True), ("validation", False)):
        made = pretraining_dataset(data, split, batch_size=ROWS, seed=1, training=training, epochs=1)
        assert made.element_spec[0][name].shape.is_fully_defined()
