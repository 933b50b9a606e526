"""Settings that do not go together, refused by name before anything is built or written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import keras

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.tf_config import VARIABLE, Cluster

# The strategies that take every device they find.
_TAKE_ALL = {"multi_worker": "all devices of every worker", "tpu": "all cores of the TPU"}


def validate_config(config: TrainingConfig, environment: Mapping[str, str] = os.environ) -> None:
    """Checks what single fields cannot tell.

    Args:
        config: of the run.
        environment: of the process; `TF_CONFIG` is read.

    Raises:
        ConfigError: naming the fields, the rule and what they hold.
    """
    strategy, replicas, backend = config.strategy, config.num_replicas, keras.backend.backend()
    if strategy in _TAKE_ALL and backend != "tensorflow":
        raise ConfigError(f"`training.strategy` = {strategy} needs the Keras backend tensorflow. Received: {backend}")
    if strategy == "none" and replicas > 1:
        raise ConfigError(f"`training.num_replicas` above 1 needs `training.strategy` = mirrored. Received: {replicas}")
    if strategy in _TAKE_ALL and replicas:
        raise ConfigError(
            f"`training.num_replicas` belongs to mirrored; {strategy} takes {_TAKE_ALL[strategy]}. Received: {replicas}"
        )
    if strategy == "tpu" and config.precision == "float16":
        raise ConfigError(
            "`training.precision` must be bfloat16 or float32 under `training.strategy` = tpu, which computes in "
            "nothing else. Received: float16"
        )
    if strategy == "tpu" and config.on_nan == "skip":
        raise ConfigError(
            "`training.on_nan` must be stop or halve under `training.strategy` = tpu, whose steps are looked at only "
            "when figures are recorded: which batch was to blame is not known. Received: skip"
        )
    if strategy == "tpu" and config.padding != "full":
        raise ConfigError(
            f"`training.padding` must be full under `training.strategy` = tpu, where all batches have one shape. "
            f"Received: {config.padding}"
        )
    if strategy == "multi_worker":
        Cluster.from_environment(environment)
    elif _workers(environment) > 1:
        raise ConfigError(
            f"{VARIABLE} names {_workers(environment)} workers, each of which would train by itself and write to the "
            f"same directory: `training.strategy` must be multi_worker, or {VARIABLE} unset. Received: {strategy}"
        )
    check_batch(config, 1 if strategy == "none" else max(1, replicas))


def check_batch(config: TrainingConfig, replicas: int) -> None:
    """Raises ConfigError where the global batch does not divide by replicas and parts."""
    if config.batch_size % (replicas * config.accumulate):
        raise ConfigError(
            f"`training.batch_size` must be a multiple of the number of replicas times `training.accumulate`. "
            f"Received: {config.batch_size}, {replicas} and {config.accumulate}"
        )


def _workers(environment: Mapping[str, str]) -> int:
    """Returns how many workers `TF_CONFIG` names, 0 where it is none of ours."""
    try:
        return len(json.loads(environment.get(VARIABLE) or "{}")["cluster"]["worker"])
    except (ValueError, TypeError, KeyError):
        return 0
