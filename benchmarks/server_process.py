"""`bert-tf serve` in a process of its own, for as long as a block runs."""

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
    """A server that answers.

    Args:
        process: the one that was started; workers are its children.
        rest, grpc: ports on this machine.
        seconds: from its start until it was ready.
    """

    process: subprocess.Popen[str]
    rest: int
    grpc: int
    seconds: float

    def memory(self) -> int:
        """Returns the bytes that its processes made, without libraries and other files; what they share counts once."""
        return sum(proportional_bytes(one, "Pss_Anon") for one in (self.process.pid, *descendants(self.process.pid)))


@contextlib.contextmanager
def serving(model: Path, *flags: str) -> Iterator[Server]:
    """Gives a block a server of one model, and ends it.

    Args:
        model: `saved_models/NAME`.
        *flags: further ones of `bert-tf serve`.

    Raises:
        RuntimeError: where it does not start.
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
    ports, said = [], []
    for line in process.stderr:
        said.append(line)
        if " at http://" in line or "gRPC on " in line:
            ports.append(int(line.split("/v1/")[0].strip().rpartition(":")[2]))
        if "stop with" in line:
            break
    if len(ports) != 2:
        raise RuntimeError(f"the server did not start: {''.join(said[-5:])}")
    # Its log is read on, so that it never waits for a full pipe.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return ports[0], ports[1]


def _await_ready(process: subprocess.Popen[str], port: int) -> None:
    while process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    raise RuntimeError(f"the server ended with status {process.returncode}")
