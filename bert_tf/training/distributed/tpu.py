"""Training on a TPU, by TensorFlow's documented rules. Not run: no TPU was at hand.

What is known without one: the step compiles for XLA with static shapes, and computes what it does uncompiled. The
batches have static shapes, the last of an evaluation included; records are read, checked and masked in tf.data, on the
host; nothing of a step is fetched, so that steps follow one another without waiting for the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.rendezvous import answers

NAME_VARIABLE = "TPU_NAME"
# Of a TPU that is attached to this machine, as TensorFlow calls it.
_LOCAL = "local"
_ADDRESS = re.compile(r"(?:grpc://)?(.+:\d+)")


def tpu_strategy(config: TrainingConfig, environment: Mapping[str, str] = os.environ) -> tf.distribute.Strategy:
    """Connects to a TPU and returns the strategy of all its cores.

    The data directory must be at the same path on every host of the TPU, which reads it itself. `bfloat16` is the
    precision that its matrix units are made for.

    Args:
        config: `tpu_name` is read: a Cloud TPU's name, `grpc://host:port`, `local`, or empty for what `TPU_NAME` says.
        environment: of the process.

    Raises:
        ConfigError: naming what was looked for, where no TPU is found there.
    """
    name = config.tpu_name or environment.get(NAME_VARIABLE) or ""
    address = _ADDRESS.fullmatch(name)
    if not name or name == _LOCAL:
        if not tf.config.list_physical_devices("TPU"):
            raise ConfigError(
                f"`training.strategy` = tpu: this machine has no TPU device, and neither `training.tpu_name` nor "
                f"{NAME_VARIABLE} names another one. Received: {name!r}"
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


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether the run is on a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)
