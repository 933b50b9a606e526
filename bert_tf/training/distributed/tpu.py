"""Training on a TPU, after TensorFlow's documentation. Not run: no TPU was available.

Tests cover the parts that need no TPU: the step compiles for XLA with static shapes and computes the same values as
uncompiled. All batches have static shapes, including the last of an evaluation. Records are read, checked and masked in
tf.data on the host. No value of a step is fetched, so steps follow one another without waiting for the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.rendezvous import answers

NAME_VARIABLE = "TPU_NAME"
# TensorFlow's name of a TPU that is attached to this machine.
_LOCAL = "local"
_ADDRESS = re.compile(r"(?:grpc://)?(.+:\d+)")


def tpu_strategy(config: TrainingConfig, environment: Mapping[str, str] = os.environ) -> tf.distribute.Strategy:
    """Connects to a TPU and returns the strategy of all its cores. Raises ConfigError with the name of a missing TPU.

    `config.tpu_name` is the name of a Cloud TPU, `grpc://host:port`, `local`, or empty for the value of `TPU_NAME`. The
    data directory must be at the same path on every host of the TPU, which reads it directly. `bfloat16` is the native
    precision of its matrix units.
    """
    name = config.tpu_name or environment.get(NAME_VARIABLE) or ""
    address = _ADDRESS.fullmatch(name)
    if not name or name == _LOCAL:
        if not tf.config.list_physical_devices("TPU"):
            raise ConfigError(
                f"`training.strategy` = tpu: this machine has no TPU device. Set `training.tpu_name` or "
                f"{NAME_VARIABLE} to use another one. Received: {name!r}"
            )
    elif address and not answers(address[1]):
        raise ConfigError(f"`training.strategy` = tpu: no TPU answers at {address[1]}. Received: {name!r}")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name or _LOCAL)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, ImportError, tf.errors.OpError) as error:
        raise ConfigError(
            f"`training.strategy` = tpu: TensorFlow finds no TPU called {name or _LOCAL!r} ({error})."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
