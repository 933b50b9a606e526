"""Measures the cost of a command: seconds, CPU seconds and memory of all its processes (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_BETWEEN_SAMPLES = 0.1


@dataclass(frozen=True)
class Cost:
    """The cost of a command.

    Args:
        seconds: duration.
        cpu_seconds: user and system time of all processes.
        peak_bytes: largest sum of the proportional set sizes of all processes, sampled ten times per second; 0 if not
            measured.
        stdout: standard output.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stdout: str


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str] = {}, memory: bool = False) -> Cost:
    """Runs a command and waits for its end.

    Args:
        command: program and arguments.
        directory: working directory.
        environment: additional environment variables.
        memory: whether to sample memory, which takes some CPU time.

    Raises:
        RuntimeError: if the command fails; the message holds the end of its stderr.
    """
    peak = 0

    def look() -> None:
        nonlocal peak
        peak = max(peak, sum(map(proportional_bytes, descendants(os.getpid()))))

    _adopt_orphans()
    before = _children_seconds()
    started = time.perf_counter()
    with (
        Path(directory, "stderr.log").open("w+") as errors,
        subprocess.Popen(
            command, cwd=directory, env=os.environ | environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
        Sampler(look if memory else None),
    ):
        stdout, _ = process.communicate()
        seconds = time.perf_counter() - started
        errors.seek(0)
        tail = errors.read()[-4000:]
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: ended with {process.returncode}: {tail}")
    _await_orphans()
    return Cost(seconds, _children_seconds() - before, peak, stdout)


def _adopt_orphans() -> None:
    """Makes this process the parent of orphaned grandchildren, so that their CPU time is counted."""
    if not sys.platform.startswith("linux") or ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise RuntimeError("processes can be measured on Linux only.")


def _await_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Sampler:
    """Calls a function ten times per second inside a `with` block.

    Args:
        look: function that reads and stores values; None to call nothing.
    """

    def __init__(self, look: Callable[[], None] | None) -> None:
        self._look = look
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _loop(self) -> None:
        while self._look is not None and not self._done.wait(_SECONDS_BETWEEN_SAMPLES):
            self._look()


def descendants(root: int) -> list[int]:
    """Returns the ids of all descendants of the process `root`."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # Processes may end at any time. The name is in brackets and may contain any character, brackets included.
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    ids: list[int] = []
    todo = [root]
    while todo:
        child_ids = children[todo.pop()]
        ids += child_ids
        todo += child_ids
    return ids


def proportional_bytes(process: int, kind: str = "Pss") -> int:
    """Returns the memory of a process, with shared memory divided among its users; 0 if the process has ended.

    Args:
        process: process id.
        kind: `Pss` for all memory; `Pss_Anon` for anonymous memory, without libraries, whose shares depend on other
            processes.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) << 10
    return 0
