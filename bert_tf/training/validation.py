"""Checks for conflicting settings, before anything is built or written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import keras

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.rendezvous import JAX_VARIABLES, VARIABLE, Cluster

# Strategies that use all available devices.
_TAKE_ALL = {"multi_worker": "all devices of every worker", "tpu": "all cores of the TPU"}


def validate_config(config: TrainingConfig, environment: Mapping[str, str] = os.environ) -> None:
    """Raises ConfigError if settings or `TF_CONFIG` conflict, with the fields, the rule and the values."""
    strategy, replicas, backend = config.strategy, config.num_replicas, keras.backend.backend()
    if strategy == "tpu" and backend != "tensorflow":
        raise ConfigError(
            f"`training.strategy` = tpu needs the Keras backend tensorflow. Received: {backend}, on which mirrored "
            f"takes the TPU of one machine and multi_worker that of several. Use one of them."
        )
    if strategy == "none" and replicas > 1:
        raise ConfigError(f"`training.num_replicas` above 1 needs `training.strategy` = mirrored. Received: {replicas}")
    if strategy in _TAKE_ALL and replicas:
        raise ConfigError(
            f"`training.num_replicas` belongs to mirrored; {strategy} takes {_TAKE_ALL[strategy]}. Received: {replicas}"
        )
    if config.jit_compile == "false" and (backend == "jax" or strategy == "tpu"):
        raise ConfigError(
            "`training.jit_compile` must be auto or true with the Keras backend jax and with `training.strategy` = "
            "tpu, which always compile. Received: false"
        )
    if strategy == "tpu" and config.precision == "float16":
        raise ConfigError(
            "`training.precision` must be bfloat16 or float32 with `training.strategy` = tpu, which supports no other "
            "precision. Received: float16"
        )
    if strategy == "tpu" and config.padding != "full":
        raise ConfigError(
            f"`training.padding` must be full with `training.strategy` = tpu, because all batches have one shape. "
            f"Received: {config.padding}"
        )
    names_processes = backend == "jax" and not environment.get(VARIABLE)
    if strategy == "multi_worker":
        # JAX reads other variables, or detects the processes itself.
        if not names_processes:
            Cluster.from_environment(environment)
    elif (workers := _workers(environment, names_processes)) > 1:
        variable = JAX_VARIABLES[1] if names_processes else VARIABLE
        raise ConfigError(
            f"{variable} names {workers} workers, so `training.strategy` must be multi_worker; otherwise each would "
            f"train separately and write to the same directory. Set it, or unset {variable}. Received: {strategy}"
        )
    check_batch(config, 1 if strategy == "none" else max(1, replicas))


def check_batch(config: TrainingConfig, replicas: int) -> None:
    """Raises ConfigError if replicas and parts do not divide the global batch size."""
    if any(size % (replicas * config.accumulate) for size in config.batch_sizes):
        raise ConfigError(
            f"`training.batch_size` must be a multiple of the number of replicas times `training.accumulate`. "
            f"Received: {config.batch_size}, {replicas} and {config.accumulate}"
        )


def _workers(environment: Mapping[str, str], of_jax: bool) -> int:
    """Returns the number of workers that `TF_CONFIG` or JAX's variable names; 0 if it has another format."""
    try:
        if of_jax:
            return int(environment.get(JAX_VARIABLES[1]) or 0)
        return len(json.loads(environment.get(VARIABLE) or "{}")["cluster"]["worker"])
    except (ValueError, TypeError, KeyError):
        return 0
