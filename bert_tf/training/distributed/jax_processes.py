"""Workers of a run on JAX: start of the processes, their collectives, and their end."""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.distributed.collectives import Workers
from bert_tf.training.distributed.rendezvous import JAX_VARIABLES, VARIABLE, Cluster, rendezvous
from bert_tf.training.loop.checkpoints import TrainingError

# Errors of a collective operation after another process has ended.
_LOST = re.compile(r"gloo|nccl|coordination service|heartbeat|connection (closed|reset)|unavailable:", re.IGNORECASE)
# Seconds in which the other processes report an error before they lose the first process, which JAX connects them to.
_GRACE = 3.0


class JaxWorkers(Workers):
    """The processes of a run on JAX, after `start_processes`."""

    def __init__(self, names: Sequence[str], index: int) -> None:
        super().__init__(names, index)
        self._ends_together = False

    def gather(self, values: Sequence[int]) -> np.ndarray:
        """Returns the numbers of all workers, in their order: (workers, n) from n int32 numbers of each."""
        gathered = multihost_utils.process_allgather(np.asarray(values, np.int32))
        return np.asarray(gathered).reshape(len(self.names), -1)

    def agree(self, stop: bool, milliseconds: int) -> tuple[bool, int]:
        """Returns the agreement of `Workers.agree`; all workers end after one to stop."""
        stop, slowest = super().agree(stop, milliseconds)
        self._ends_together |= stop
        return stop, slowest

    @contextlib.contextmanager
    def raise_on_lost_worker(self, step: Callable[[], int]) -> Iterator[None]:
        """Raises TrainingError if a collective operation reports that another worker has ended."""
        try:
            yield
        except TrainingError:
            raise
        except (ValueError, RuntimeError) as error:
            if not _LOST.search(str(error)):
                raise
            raise self.lost(step()) from error

    @contextlib.contextmanager
    def leave_on_error(self) -> Iterator[None]:
        """Lets the process end at once after an error in the block.

        JAX waits at the exit of a process for all others, which wait in a collective operation for this process.
        """
        try:
            yield
        except BaseException as error:
            if not self._ends_together:
                status = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
                atexit.register(_leave, status, _GRACE if self.is_chief else 0.0)
            raise


def start_processes(config: TrainingConfig, environment: Mapping[str, str] = os.environ) -> JaxWorkers:
    """Connects the processes of a run.

    The processes are those that `TF_CONFIG` names; without it, those of the variables `JAX_COORDINATOR_ADDRESS`,
    `JAX_NUM_PROCESSES` and `JAX_PROCESS_ID`; without these, those of the cluster that JAX detects, such as the hosts of
    a Cloud TPU.

    Args:
        config: `worker_timeout` is the time to wait for the other processes.
        environment: environment variables.

    Returns:
        The workers.

    Raises:
        ConfigError: if the variables are invalid, JAX detects no cluster, or JAX has run anything in this process.
        TrainingError: if other processes do not answer.
    """
    if not environment.get(VARIABLE):
        _initialize(config, **_from_variables(environment))
        workers = JaxWorkers(["this process"] * jax.process_count(), jax.process_index())
        names = workers.gather_texts(f"process {workers.index} on {socket.gethostname()}")
        return _reported(JaxWorkers(names, workers.index))
    cluster = Cluster.from_environment(environment)
    with rendezvous(cluster, config.worker_timeout, serves=cluster.index == 0):
        _initialize(
            config,
            coordinator_address=cluster.workers[0],
            num_processes=len(cluster.workers),
            process_id=cluster.index,
            cluster_detection_method="deactivate",
        )
    return _reported(JaxWorkers(cluster.workers, cluster.index))


def _reported(workers: JaxWorkers) -> JaxWorkers:
    replicas = jax.device_count()
    print(f"worker {workers.index + 1} of {len(workers.names)}, {replicas} replicas", file=sys.stderr)
    return workers


def _from_variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of `jax.distributed.initialize` that JAX does not detect itself."""
    address, *numbers = (environment.get(name) for name in JAX_VARIABLES)
    if not address:
        return {}
    try:
        processes, index = (int(number or "") for number in numbers)
    except ValueError as error:
        raise ConfigError(
            f"{JAX_VARIABLES[0]} needs {JAX_VARIABLES[1]} and {JAX_VARIABLES[2]}, which are numbers. "
            f"Received: {address}, {numbers[0]} and {numbers[1]}"
        ) from error
    return {"coordinator_address": address, "num_processes": processes, "process_id": index}


def _initialize(config: TrainingConfig, **arguments: Any) -> None:
    try:
        jax.distributed.initialize(**arguments, initialization_timeout=math.ceil(config.worker_timeout))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"`training.strategy` = multi_worker needs {VARIABLE}, or {', '.join(JAX_VARIABLES)}, in the environment "
            f"of every worker, or a cluster that JAX detects. Received: {error}"
        ) from error
    except RuntimeError as error:
        if "before" in str(error):
            raise ConfigError(
                f"`training.strategy` = multi_worker must be set up before JAX has run anything in this process. "
                f"Start the run in a new process. Received: {error}"
            ) from error
        raise TrainingError(
            f"not all workers have answered within {config.worker_timeout:g} seconds (`training.worker_timeout`). "
            f"Start the same command on every worker. Received: {error}"
        ) from error


def _leave(status: int, seconds: float) -> None:
    time.sleep(seconds)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
