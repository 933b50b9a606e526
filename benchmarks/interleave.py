"""Runs rounds of training steps of several contenders in turn, each contender in a process of its own.

All processes are started once. Between its rounds a contender is stopped (SIGSTOP), so that its threads do not take a
core from the running contender. `benchmarks.peers.session` is the contender's side of the protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import measure

ROOT = Path(__file__).parents[1]
# The settings of bert_tf; TensorFlow and PyTorch also benefit.
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
# The part of a round that is long enough to estimate the number of steps in a round.
_TRIAL = 0.05


@dataclass(frozen=True)
class Contender:
    """A program that runs steps on command.

    Args:
        name: name in the table.
        command: program and arguments.
        reference: name of the contender to compare with.
    """

    name: str
    command: Sequence[str]
    reference: str


@dataclass(frozen=True)
class Round:
    """The measurements of a round's timed steps.

    Args:
        steps: number of steps.
        seconds: duration from the start of the first step to the end of the last.
        units: units of work done.
        peak_bytes: largest resident set size of the process so far.
        loss: loss of the last step; None if absent.
    """

    steps: int
    seconds: float
    units: float
    peak_bytes: int
    loss: float | None

    @property
    def milliseconds(self) -> float:
        """Milliseconds per step."""
        return 1e3 * self.seconds / self.steps

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.seconds


@dataclass
class Measured:
    """The rounds of a contender.

    Args:
        contender: the contender.
        facts: facts from its first message: `loss` of the first step, `parameters`.
        rounds: rounds in the order of time.
    """

    contender: Contender
    facts: Mapping[str, Any]
    rounds: list[Round] = field(default_factory=list)


class Process:
    """The process of a contender, stopped except while it runs steps. Use it in a `with` block, which ends it.

    Args:
        contender: contender to start.
        log: path of the log for stderr.

    Raises:
        RuntimeError: if the process ends unexpectedly; the message holds the end of its stderr.
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
        """Runs `warmup` untimed steps, then `steps` timed steps."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"go {warmup} {steps}\n")
            stdin.flush()
        self._process.send_signal(signal.SIGCONT)
        return Round(**self._answer())

    def end(self) -> None:
        """Kills the process."""
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
    """Runs all contenders in turn.

    Args:
        contenders: contenders of different names, in the order of their turns.
        rounds: number of turns per contender.
        seconds: target duration of the timed steps of a turn; each contender runs as many steps as fit.
        settle: untimed steps before the first turn.
        warmup: untimed steps at the start of a turn.
        work: empty folder for logs.

    Returns:
        The measurements, in the order of `contenders`.
    """
    with contextlib.ExitStack() as stack:
        processes, steps = [], []
        for number, contender in enumerate(contenders):
            process = stack.enter_context(Process(contender, work / f"contender-{number}.log"))
            processes.append(process)
            steps.append(_steps_for(process, seconds, settle))
        results = [Measured(c, process.facts) for c, process in zip(contenders, processes, strict=True)]
        for _ in range(rounds):
            for process, count, measured in zip(processes, steps, results, strict=True):
                measured.rounds.append(process.go(warmup, count))
    return results


def measure_all(contenders: Sequence[Contender], args: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """Returns the `summary` of contenders, measured with the options of `add_arguments`."""
    return summary(interleaved(contenders, args.rounds, args.seconds, args.settle, args.warmup, work))


def _steps_for(process: Process, seconds: float, settle: int) -> int:
    """Returns the number of steps that take about `seconds`, at least one."""
    steps = 1
    while (trial := process.go(settle, steps)).seconds < _TRIAL * seconds:
        steps, settle = 4 * steps, 0
    return max(1, round(seconds / trial.seconds * steps))


def summary(measurements: Sequence[Measured]) -> list[dict[str, Any]]:
    """Returns a row for each contender.

    Args:
        measurements: measurements of `interleaved`.

    Returns:
        Medians over the rounds of milliseconds per step and units per second, their minima and maxima, and the medians
        of their ratios to the reference in the same round, `times_milliseconds` and `times_rate`. The ratios are None
        if the reference was not measured; the rates are None if no units were counted.
    """
    by_name = {measured.contender.name: measured for measured in measurements}
    return [_row(measured, by_name.get(measured.contender.reference)) for measured in measurements]


def _row(measured: Measured, reference: Measured | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": measured.contender.name,
        "reference": measured.contender.reference,
        **measured.facts,
        "steps_a_round": measured.rounds[0].steps,
        "peak_bytes": measured.rounds[-1].peak_bytes,
        "last_loss": measured.rounds[-1].loss,
    }
    for name in ("milliseconds", "rate"):
        values = [getattr(one, name) for one in measured.rounds]
        references = [getattr(one, name) for one in reference.rounds] if reference else []
        counted = all(values)
        compared = counted and bool(references) and all(references)
        ratios = [value / base for value, base in zip(values, references, strict=True)] if compared else []
        row[name] = statistics.median(values) if counted else None
        row[f"{name}_range"] = [min(values), max(values)] if counted else None
        row[f"{name}_of_rounds"] = values if counted else None
        row[f"times_{name}"] = statistics.median(ratios) if compared else None
    return row


def command(python: Path | str, module: str, args: argparse.Namespace, **flags: Any) -> list[str]:
    """Returns the command line of a contender."""
    program = [str(python), "-m", f"benchmarks.peers.{module}", f"--threads={args.threads}"]
    return [*program, *(f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items())]


def rate_table(rows: Sequence[dict[str, Any]], unit: str) -> list[str]:
    """Returns the lines of a table of rates."""
    lines = [f"  {'':<30}{unit:>12}{'min - max':>22}{'ms/step':>11}   times"]
    for row in rows:
        low, high = row["rate_range"]
        lines.append(
            f"  {row['name']:<30}{row['rate']:>12,.0f}{f'{low:,.0f} - {high:,.0f}':>22}{row['milliseconds']:>11.1f}"
            f"{row['times_rate']:>8.2f} x {row['reference']}"
        )
    return lines


def heading(title: str, args: argparse.Namespace) -> None:
    """Prints a title with the options, the machine and the date."""
    measure.heading(f"{title} (medians of {args.rounds} rounds, {args.threads} threads, {' '.join(instructions())})")


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of `add_arguments` and the settings of the machine as JSON values."""
    options = {name: getattr(args, name) for name in ("rounds", "seconds", "settle", "warmup", "threads")}
    return options | {"allocator": ALLOCATOR, "instructions": instructions()}


def instructions() -> list[str]:
    """Returns the vector instructions of this processor that matter for the speed of matrix products."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]


def add_arguments(parser: argparse.ArgumentParser, seconds: float, settle: int) -> None:
    """Adds the options of `interleaved` with their defaults."""
    cores = len(os.sched_getaffinity(0))
    add = functools.partial(parser.add_argument, type=int)
    add("--rounds", default=measure.REPETITIONS, help="rounds per contender; default: %(default)s")
    add("--seconds", type=float, default=seconds, help="duration of a round's timed steps; default: %(default)s")
    add("--settle", default=settle, help="untimed steps before the first round; default: %(default)s")
    add("--warmup", default=1, help="untimed steps at the start of a round; default: %(default)s")
    add("--threads", default=cores, help="threads; default: one per core")


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Exits with a message if a number of `add_arguments` is too small."""
    for name in ("rounds", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1. Received: {getattr(args, name)}")
