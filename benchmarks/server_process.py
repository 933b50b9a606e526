"""Runs `bert-tf serve` in a process of its own for the duration of a block."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import descendants, proportional_bytes

_SECONDS_BETWEEN_LOOKS = 0.02


@dataclass(frozen=True)
class Server:
    """A server that accepts requests.

    Args:
        process: main process; workers are its children.
        rest: port of REST on this machine.
        grpc: port of gRPC on this machine.
        seconds: time from start to readiness.
    """

    process: subprocess.Popen[str]
    rest: int
    grpc: int
    seconds: float

    def memory(self) -> int:
        """Returns the anonymous memory of its processes in bytes, without libraries; shared memory counts once."""
        return sum(proportional_bytes(one, "Pss_Anon") for one in (self.process.pid, *descendants(self.process.pid)))


@contextlib.contextmanager
def serving(model: Path, *flags: str) -> Iterator[Server]:
    """Starts a server of one model for a `with` block, and ends it.

    Args:
        model: `saved_models/NAME`.
        *flags: further flags of `bert-tf serve`.

    Raises:
        RuntimeError: if the server does not start.
    """
    command = [sys.executable, "-m", "bert_tf.cli", "serve", f"--model={model}", "--port=0", "--grpc_port=0", *flags]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        try:
            rest, grpc = _ports(process)
            _await_ready(process, rest)
            yield Server(process, rest, grpc, time.perf_counter() - began)
        finally:
            process.terminate()
            process.wait(60)


def _ports(process: subprocess.Popen[str]) -> tuple[int, int]:
    assert process.stderr is not None
    ports, lines = [], []
    for line in process.stderr:
        lines.append(line)
        if " at http://" in line or "gRPC on " in line:
            ports.append(int(line.split("/v1/")[0].strip().rpartition(":")[2]))
        if "stop with" in line:
            break
    if len(ports) != 2:
        raise RuntimeError(f"the server did not start: {''.join(lines[-5:])}")
    # A thread keeps reading the log, so that the server never blocks on a full pipe.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return ports[0], ports[1]


def _await_ready(process: subprocess.Popen[str], port: int) -> None:
    while process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    raise RuntimeError(f"the server ended with status {process.returncode}")
