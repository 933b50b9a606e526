"""Contenders that wait for their turn: rounds of training steps, interleaved, each contender in a process of its own.

All are started once; between its rounds a contender is stopped (SIGSTOP), so that no thread of it takes a core from the
one whose turn it is. `benchmarks.peers.session` is the other end of the line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# What bert_tf sets for itself; TensorFlow and PyTorch gain by it as well.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "536870912",
}
_QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HF_HUB_OFFLINE": "1",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONWARNINGS": "ignore",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
# A share of a round that is long enough to tell how many steps a round takes.
_TRIAL = 0.05


@dataclass(frozen=True)
class Contender:
    """A program that takes steps when told to.

    Args:
        name: for the table.
        command: program and arguments.
        reference: name of the contender that it is compared with.
    """

    name: str
    command: Sequence[str]
    reference: str


@dataclass(frozen=True)
class Round:
    """What the timed steps of one round took.

    Args:
        steps: their number.
        seconds: from the first's beginning to the last's end.
        units: of work done.
        peak_bytes: largest resident size of the process so far.
        loss: of the last step; None where there is none.
    """

    steps: int
    seconds: float
    units: float
    peak_bytes: int
    loss: float | None

    @property
    def milliseconds(self) -> float:
        """Of one step."""
        return 1e3 * self.seconds / self.steps

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.units / self.seconds


@dataclass
class Measured:
    """A contender's rounds.

    Args:
        contender: whose.
        facts: its greeting: `loss` of its first step, `parameters`.
        rounds: one after the other.
    """

    contender: Contender
    facts: Mapping[str, Any]
    rounds: list[Round] = field(default_factory=list)


class Process:
    """A contender's process, stopped except while it works. To be used in a `with` block, which ends it.

    Args:
        contender: what to start.
        log: where its stderr goes.

    Raises:
        RuntimeError: when it ends before it is told to; holds the end of its stderr.
    """

    def __init__(self, contender: Contender, log: Path) -> None:
        self._contender = contender
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                contender.command, cwd=ROOT, env=os.environ | ALLOCATOR | _QUIET, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        try:
            self.facts = self._answer()
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def number(self) -> int:
        """The process id."""
        return self._process.pid

    def go(self, warmup: int, steps: int) -> Round:
        """Has it take steps, the first `warmup` of them untimed."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"go {warmup} {steps}\n")
            stdin.flush()
        self._process.send_signal(signal.SIGCONT)
        return Round(**self._answer())

    def end(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            tail = self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
            raise RuntimeError(f"{self._contender.name}: ended with {self._process.wait()}: {tail}")
        self._process.send_signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        return answer


def interleaved(
    contenders: Sequence[Contender], rounds: int, seconds: float, settle: int, warmup: int, work: Path
) -> list[Measured]:
    """Lets all contenders work in turn.

    Args:
        contenders: in the order of their turns, of different names.
        rounds: turns of each.
        seconds: how long the timed steps of a turn are to take; each contender takes as many steps as fit.
        settle: untimed steps before the first turn.
        warmup: untimed steps at the beginning of a turn.
        work: an empty folder, for logs.

    Returns:
        What was measured, in the order of `contenders`.
    """
    with contextlib.ExitStack() as stack:
        processes, steps = [], []
        for number, contender in enumerate(contenders):
            process = stack.enter_context(Process(contender, work / f"contender-{number}.log"))
            processes.append(process)
            steps.append(_steps_for(process, seconds, settle))
        found = [Measured(c, process.facts) for c, process in zip(contenders, processes, strict=True)]
        for _ in range(rounds):
            for process, count, measured in zip(processes, steps, found, strict=True):
                measured.rounds.append(process.go(warmup, count))
    return found


def _steps_for(process: Process, seconds: float, settle: int) -> int:
    """Returns how many steps take about so many seconds, at least one."""
    steps = 1
    while (trial := process.go(settle, steps)).seconds < _TRIAL * seconds:
        steps, settle = 4 * steps, 0
    return max(1, round(seconds / trial.seconds * steps))


def summary(found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Returns a row for each contender.

    Returns:
        Medians over the rounds of milliseconds a step and of units a second, their extremes, and the medians of their
        quotients with those of the reference in the same round, `times_milliseconds` and `times_rate`. The quotients
        are `None` where the reference is not among those measured, the rates where nothing was counted.
    """
    by_name = {measured.contender.name: measured for measured in found}
    return [_row(measured, by_name.get(measured.contender.reference)) for measured in found]


def _row(measured: Measured, reference: Measured | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": measured.contender.name,
        "reference": measured.contender.reference,
        **measured.facts,
        "steps_a_round": measured.rounds[0].steps,
        "peak_bytes": measured.rounds[-1].peak_bytes,
        "last_loss": measured.rounds[-1].loss,
    }
    for what in ("milliseconds", "rate"):
        values = [getattr(one, what) for one in measured.rounds]
        others = [getattr(one, what) for one in reference.rounds] if reference else []
        counted = all(values)
        compared = counted and bool(others) and all(others)
        quotients = [own / other for own, other in zip(values, others, strict=True)] if compared else []
        row[what] = statistics.median(values) if counted else None
        row[f"{what}_range"] = [min(values), max(values)] if counted else None
        row[f"{what}_of_rounds"] = values if counted else None
        row[f"times_{what}"] = statistics.median(quotients) if compared else None
    return row
