"""Runs the small pre-training run in other processes: alone, or as one of several workers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

# A module of this repository, in which pytest runs.
PROGRAM = ("-m", "tests.support.training.tiny_run")


def in_subprocess(output: Path, *settings: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *PROGRAM, str(output), *settings], capture_output=True, text=True, timeout=300
    )


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("localhost", 0))
        return [opened.getsockname()[1] for opened in sockets]


def start(output, ports, index, *settings, **environment):
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    task = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}
    argv = [sys.executable, *PROGRAM, str(output), 'strategy="multi_worker"', *settings]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=os.environ | task | environment, stdout=pipe, stderr=pipe, text=True)


def both(output, *settings, **environment):
    """Runs two workers to completion; returns their summaries."""
    ports = free_ports(2)
    workers = [start(output, ports, index, *settings, **environment) for index in range(2)]
    ended = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], ended
    return [json.loads(out.splitlines()[-1]) for out, _ in ended]
