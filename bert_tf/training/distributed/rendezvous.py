"""Workers of a run that `TF_CONFIG` names, and their rendezvous, with an error that names missing workers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bert_tf.config import ConfigError
from bert_tf.training.loop.checkpoints import TrainingError

VARIABLE = "TF_CONFIG"
# Address of the first process, number of processes, and number of this process, for the Keras backend jax.
JAX_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
# Seconds between attempts, and the time-out of one: a host that drops packets never answers.
_PAUSE, _ATTEMPT = 0.2, 2.0


@dataclass(frozen=True)
class Cluster:
    """The workers of a run, by their `host:port`, and the index of this process among them."""

    workers: tuple[str, ...] = ("localhost",)
    index: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Cluster:
        """Reads `TF_CONFIG`. Raises ConfigError unless it names the workers and the index of one of them."""
        text = environment.get(VARIABLE)
        if not text:
            raise ConfigError(
                f"`training.strategy` = multi_worker needs {VARIABLE} in the environment of every worker."
            )
        form = '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": n}}'
        rule = f"{VARIABLE} must be {form}"
        try:
            fields = json.loads(text)
            workers, task = fields["cluster"]["worker"], fields["task"]
            index = int(task["index"])
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{rule}. Received: {text}") from error
        fits = isinstance(workers, list) and all(re.fullmatch(r".+:\d+", str(worker)) for worker in workers)
        if not fits or set(fields["cluster"]) != {"worker"} or task.get("type") != "worker":
            raise ConfigError(f"{rule}, all of them workers. Received: {text}")
        if not 0 <= index < len(workers):
            raise ConfigError(
                f"{VARIABLE}: `index` must be below the number of workers, {len(workers)}. Received: {index}"
            )
        return cls(tuple(workers), index)


@contextlib.contextmanager
def rendezvous(cluster: Cluster, seconds: float, serves: bool = True) -> Iterator[None]:
    """Waits `seconds` until every worker answers at its address; the block starts the framework's own server there.

    TensorFlow 2.21 waits an hour for a missing worker, does not name it, and handles SIGTERM itself meanwhile and
    afterwards. Here a worker listens at its address until it has reached all others. Workers that start later reach
    the framework's server at the same address. If the block `serves` nothing there, as that of JAX in all processes but
    the first one, the worker listens until the end of the block. Python's SIGTERM handler is restored at the end of the
    block. Raises TrainingError with the addresses that do not answer, or if this worker's address is in use.
    """
    others = [address for index, address in enumerate(cluster.workers) if index != cluster.index]
    with contextlib.ExitStack() as listening:
        listening.enter_context(_listening(cluster.workers[cluster.index]))
        missing = _wait_for(others, seconds)
        if missing:
            raise TrainingError(
                f"no answer from {', '.join(missing)} within {seconds:g} seconds (`training.worker_timeout`). "
                f"Start the same command on every worker that TF_CONFIG names."
            )
        if serves:
            listening.close()
        yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _wait_for(addresses: Sequence[str], seconds: float) -> list[str]:
    """Returns the `addresses` that have not answered after `seconds`."""
    missing, deadline, reported = list(addresses), time.monotonic() + seconds, False
    while True:
        missing = [address for address in missing if not answers(address)]
        if not missing or time.monotonic() >= deadline:
            return missing
        if not reported:
            print(f"waiting for {', '.join(missing)}", file=sys.stderr, flush=True)
            reported = True
        time.sleep(_PAUSE)


def answers(address: str) -> bool:
    """Returns True if a process listens at `host:port`."""
    with contextlib.suppress(OSError), socket.create_connection(_split(address), timeout=_ATTEMPT):
        return True
    return False


@contextlib.contextmanager
def _listening(address: str) -> Iterator[None]:
    """Listens at the port of `address` on every interface, without accepting connections."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        listener = socket.create_server(
            ("", _split(address)[1]), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=128
        )
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise TrainingError(
            f"TF_CONFIG: this worker's address, {address}, is in use by another process. Check whether the run is "
            f"already started."
        ) from error
    with listener:
        yield


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
