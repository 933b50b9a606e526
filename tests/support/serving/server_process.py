"""Runs `bert-tf serve` in a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

READY = re.compile(r"at (http://127\.0\.0\.1:(\d+))/v1/models")
GRPC = re.compile(r"gRPC on (127\.0\.0\.1:\d+)")


@dataclass
class Running:
    """A running server.

    Args:
        process: process of the server.
        url: REST address without a path.
        grpc: HOST:PORT.
    """

    process: subprocess.Popen[str]
    url: str
    grpc: str

    def stop(self) -> tuple[int, str]:
        """Stops the server; returns exit status and standard output."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=120)
        return self.process.returncode, out


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """Yields a server on free ports, started with further arguments."""
    command = [sys.executable, "-m", "bert_tf.cli", "serve", "--port=0", "--grpc_port=0", *arguments]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            said = ""
            for line in process.stderr:
                said += line
                if "stop with Ctrl-C" in line:
                    break
            rest, grpc = READY.search(said), GRPC.search(said)
            assert rest and grpc, f"the server did not start: {said}"
            yield Running(process, rest[1], grpc[1])
        finally:
            # SIGTERM, not SIGKILL, because the server stops its workers only on request.
            process.terminate()
            process.communicate(timeout=120)
