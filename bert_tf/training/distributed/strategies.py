"""TensorFlow distribution strategies and sums over replicas."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.rendezvous import Cluster, rendezvous
from bert_tf.training.distributed.tpu import tpu_strategy
from bert_tf.training.validation import check_batch, validate_config


@contextlib.contextmanager
def strategy_scope(config: TrainingConfig) -> Iterator[tf.distribute.Strategy]:
    """Enters the scope in which model, optimizer and metrics of a run must be built.

    `none` yields TensorFlow's default strategy. `mirrored` takes `num_replicas` GPUs. On a machine without GPUs it
    splits the CPU into that many logical devices; this is for tests and is not faster. All replicas draw the same
    dropout masks, each for its own rows, because Keras's seeds are mirrored like any other variable. `multi_worker`
    takes all devices of the processes that `TF_CONFIG` names; the same command is started in each. For `tpu` see
    `tpu_strategy`.

    Raises ConfigError if settings conflict (`validate_config`), there are fewer devices than replicas, TensorFlow has
    started and the CPU can no longer be split, or the replicas do not divide the batch size. Raises TrainingError if
    other workers do not answer.
    """
    validate_config(config)
    if config.strategy == "none":
        yield tf.distribute.get_strategy()
        return
    strategy = _STRATEGIES[config.strategy](config)
    check_batch(config, strategy.num_replicas_in_sync)
    with strategy.scope():
        yield strategy


def _several_devices(config: TrainingConfig) -> tf.distribute.Strategy:
    devices = _replica_devices(config.num_replicas)
    check_batch(config, len(devices))
    return tf.distribute.MirroredStrategy(devices)


def _several_workers(config: TrainingConfig) -> tf.distribute.Strategy:
    cluster = Cluster.from_environment()
    with rendezvous(cluster, config.worker_timeout):
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
        except RuntimeError as error:
            raise ConfigError(
                f"`training.strategy` = multi_worker must be set up before TensorFlow has run anything in this "
                f"process. Start the run in a new process. Received: {error}"
            ) from error
    print(
        f"worker {cluster.index + 1} of {len(cluster.workers)}, {strategy.num_replicas_in_sync} replicas",
        file=sys.stderr,
    )
    return strategy


_STRATEGIES = {"mirrored": _several_devices, "multi_worker": _several_workers, "tpu": tpu_strategy}


def _replica_devices(num_replicas: int) -> list[str]:
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus:
        if num_replicas > gpus:
            raise ConfigError(
                f"`training.num_replicas` must not exceed the number of GPUs. Received: {num_replicas} and {gpus}"
            )
        return [f"GPU:{index}" for index in range(num_replicas or gpus)]
    if num_replicas > 1:
        _split_cpu(num_replicas)
    available = len(tf.config.list_logical_devices("CPU"))
    return [f"CPU:{index}" for index in range(num_replicas or available)]


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise ConfigError(
            f"`training.num_replicas`: the CPU can be split into logical devices only before TensorFlow has "
            f"run anything in this process. Start the run in a new process. Received: {count}"
        ) from error


def sum_over_replicas(tensors: list[Any]) -> list[Any]:
    """Returns each dense tensor summed over all replicas, or the tensors unchanged if there is one replica."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)
