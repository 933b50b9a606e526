"""Conflicting settings are refused by name, before anything is built or written."""

from __future__ import annotations

import json

import keras
import pytest

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.validation import validate_config

TWO_WORKERS = {"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}})}


@pytest.mark.parametrize(
    ("fields", "environment", "message"),
    [
        ({"num_replicas": 2}, {}, "`training.num_replicas` above 1 needs .* mirrored. Received: 2"),
        (
            {"strategy": "multi_worker", "num_replicas": 2},
            TWO_WORKERS,
            "takes all devices of every worker. Received: 2",
        ),
        ({"strategy": "multi_worker"}, {}, "needs TF_CONFIG"),
        ({"strategy": "tpu", "num_replicas": 8}, {}, "tpu takes all cores of the TPU. Received: 8"),
        ({"strategy": "tpu", "precision": "float16"}, {}, "`training.precision` must be bfloat16 .* Received: float16"),
        ({"strategy": "none"}, TWO_WORKERS, "TF_CONFIG names 2 workers, .* must be multi_worker.* Received: none"),
        ({"strategy": "mirrored"}, TWO_WORKERS, "TF_CONFIG names 2 workers, .* Received: mirrored"),
        ({"accumulate": 3}, {}, "`training.batch_size` must be a multiple .* Received: 32, 1 and 3"),
        (
            {"strategy": "mirrored", "num_replicas": 3},
            {},
            "multiple of the number of replicas .* Received: 32, 3 and 1",
        ),
        (
            {"strategy": "mirrored", "num_replicas": 8, "accumulate": 8},
            {},
            "replicas times `training.accumulate`. Received: 32, 8 and 8",
        ),
    ],
)
def test_incompatible_settings_are_refused(fields, environment, message):
    with pytest.raises(ConfigError, match=message):
        validate_config(TrainingConfig(**fields), environment)


def test_processes_of_jax_without_multi_worker_are_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    processes = {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"}
    for environment, variable in ((processes, "JAX_NUM_PROCESSES"), (TWO_WORKERS, "TF_CONFIG")):
        with pytest.raises(ConfigError, match=f"{variable} names 2 workers, .* must be multi_worker"):
            validate_config(TrainingConfig(), environment)
        validate_config(TrainingConfig(strategy="multi_worker"), environment)
    # JAX detects the hosts of a TPU itself.
    validate_config(TrainingConfig(strategy="multi_worker"), {})


@pytest.mark.parametrize(
    ("fields", "environment"),
    [
        ({}, {}),
        ({}, {"TF_CONFIG": "of somebody else"}),
        ({}, {"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1"]}})}),
        ({"strategy": "multi_worker"}, TWO_WORKERS),
        ({"strategy": "mirrored", "num_replicas": 4, "accumulate": 2, "precision": "float16", "on_nan": "skip"}, {}),
        ({"strategy": "tpu", "precision": "bfloat16", "on_nan": "skip"}, {}),
    ],
)
def test_compatible_settings_are_accepted(fields, environment):
    validate_config(TrainingConfig(**fields), environment)
