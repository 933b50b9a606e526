"""Resumable runs of an experiment, which several processes or machines take from one directory.

The directory is on a file system that all processes share. A run NAME has these files in it:

| path | content |
|---|---|
| `NAME/` | output directory of its command |
| `NAME.json` | its record: settings, fingerprints of the inputs, and the result or the failure |
| `.NAME.lease` | the process that executes it; see `storage.leases` |
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bert_tf.config import from_dict, local_path, save_json
from bert_tf.config.base import flatten, read_json_object
from bert_tf.entry.errors import is_expected, one_line
from bert_tf.experiments.fingerprints import fingerprint
from bert_tf.storage.leases import Lease, LeaseError, new_token
from bert_tf.storage.local import LocalStore

# Exit status of an interrupted command (`cli.EXIT_INTERRUPTED`).
_INTERRUPTED = 130


@dataclass(frozen=True)
class Run:
    """A command whose result is kept: a pre-training, a fine-tuning with one seed, or an evaluation.

    Args:
        name: path of the run's output directory below the experiment's; it may have slashes.
        command: arguments of `bert-tf`, the output included.
        settings: JSON values that determine the result.
        inputs: files, presets and data directories that the command reads, by name. Their contents determine the result
            too.
        work: amount of work, in the same unit for all runs of an experiment; for the remaining time.
        after: names of the runs that must finish first, because the command reads their output.

    Example:
        >>> from bert_tf.experiments.runs import Run
        >>> Run("sst2/seed_1", ("finetune", "sst2", "--data", "SST-2"), {"seed": 1}).line
        'bert-tf finetune sst2 --data SST-2'
    """

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Path] = field(default_factory=dict)
    work: float = 1.0
    after: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The command as a line of a shell."""
        return shlex.join(("bert-tf", *self.command))


Executor = Callable[[Run], Mapping[str, Any]]
"""Function that executes the command of a run and returns its summary, a dictionary of JSON values."""


class Status(enum.StrEnum):
    """Status of a run; see `Runs.state`."""

    FINISHED = "finished"
    PENDING = "pending"
    WAITING = "waiting"
    FAILED = "failed"
    DIFFERENT = "different"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class State:
    """Status of a run, and its reason unless it is finished, pending or waiting."""

    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Record:
    """Content of a run's record.

    Args:
        command: the command as a line of a shell.
        settings: `Run.settings`.
        inputs: fingerprints of `Run.inputs`.
        result: summary of the command; None unless the run is finished.
        failure: message of an error; "" unless the run failed.
        seconds: wall time of the last process.
        host: machine of the last process.
    """

    command: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    result: dict[str, Any] | None = None
    failure: str = ""
    seconds: float = 0.0
    host: str = ""


class Runs:
    """The runs of an experiment and their results in one directory.

    Finished runs are reused if their settings and inputs are equal. Each process executes the runs that no other
    process executes. A run of a process that ended is resumed by another one: at once on the same machine, after a
    minute on another. Failed runs are executed again by the next process that starts.

    Args:
        directory: directory of the experiment, which is created.
        runs: the runs, in the order of execution.
        sleep: function that waits a number of seconds for the runs of other processes.

    Raises:
        ValueError: for two runs of one name, and a name in `after` that is not the name of a run.

    Example:
        >>> from bert_tf.experiments.runs import Run, Runs
        >>> runs = Runs("experiment", [Run("a", ("evaluate",)), Run("b", ("evaluate",), after=("a",))])
        >>> runs.execute_all(lambda run: {"loss": len(run.name)})
        >>> {name: record.result for name, record in runs.results().items()}
        {'a': {'loss': 1}, 'b': {'loss': 1}}
    """

    def __init__(self, directory: str | Path, runs: Sequence[Run], sleep: Callable[[float], None] = time.sleep) -> None:
        self.directory, self.runs = local_path(directory), tuple(runs)
        self._by_name = {run.name: run for run in runs}
        if len(self._by_name) < len(self.runs):
            names = [run.name for run in runs]
            raise ValueError(f"names of runs must be unique. Received: {max(names, key=names.count)!r} twice")
        for run in runs:
            if unknown := set(run.after) - self._by_name.keys():
                raise ValueError(f"`after` must name runs of the experiment. Received: {min(unknown)!r} in {run.name}")
        self._sleep, self._token = sleep, new_token()
        self._fingerprints: dict[Path, str] = {}
        # Failures of earlier processes, whose runs are executed again.
        self._old_failures = {run.name for run in runs if (record := self.record(run)) and record.failure}

    def folder(self, run: Run) -> Path:
        """Returns the output directory of a run."""
        return self.directory / run.name

    def record_path(self, run: Run) -> Path:
        """Returns the path of a run's record."""
        folder = self.folder(run)
        return folder.with_name(f"{folder.name}.json")

    def record(self, run: Run) -> Record | None:
        """Returns the record of a run, None if it was never started.

        Raises:
            ConfigError: for a file that is not a record.
        """
        path = self.record_path(run)
        return from_dict(Record, read_json_object(path), str(path)) if path.is_file() else None

    def state(self, run: Run) -> State:
        """Returns the status of a run.

        | status | meaning |
        |---|---|
        | finished | there is a result of these settings and inputs |
        | pending | it can be executed, or another process executes it |
        | waiting | runs in `after` are not finished |
        | failed | it failed in this process |
        | different | there is a run of other settings or inputs in its place |
        | blocked | an input cannot be read, or a run in `after` has no result |
        """
        for name in run.after:
            before = self.state(self._by_name[name]).status
            if before in (Status.PENDING, Status.WAITING):
                return State(Status.WAITING)
            if before is not Status.FINISHED:
                return State(Status.BLOCKED, f"the run {name} is {before}")
        try:
            identity = self._identity(run)
        except (OSError, ValueError) as error:
            return State(Status.BLOCKED, str(error))
        record = self.record(run)
        if record is None:
            return State(Status.PENDING)
        if differences := _differences(record, identity):
            return State(Status.DIFFERENT, f"{self.folder(run)} holds a run with {differences}")
        if record.failure and run.name not in self._old_failures:
            return State(Status.FAILED, record.failure)
        return State(Status.PENDING if record.result is None else Status.FINISHED)

    def states(self) -> dict[str, State]:
        """Returns the states of all runs by name."""
        return {run.name: self.state(run) for run in self.runs}

    def pending(self) -> list[Run]:
        """Returns the runs that can be executed, or that another process executes."""
        return [run for run in self.runs if self.state(run).status is Status.PENDING]

    def results(self) -> dict[str, Record]:
        """Returns the records of all finished runs by name."""
        finished = (run for run in self.runs if self.state(run).status is Status.FINISHED)
        return {run.name: record for run in finished if (record := self.record(run))}

    def remaining_seconds(self) -> float | None:
        """Returns the estimated seconds of all unfinished runs in one process; None before the first result.

        The estimate of a run is the time to start plus a time for each unit of work, as fitted to the finished runs.
        """
        results = self.results()
        done = [(run.work, results[run.name].seconds) for run in self.runs if run.name in results]
        if not done:
            return None
        start, rate = _line(*zip(*done, strict=True))
        states = self.states()
        left = [run.work for run in self.runs if states[run.name].status in (Status.PENDING, Status.WAITING)]
        return start * len(left) + rate * sum(left)

    @contextlib.contextmanager
    def claim(self, run: Run, wait: bool = False) -> Iterator[Lease]:
        """Holds the lease of a run within the block.

        Args:
            run: the run.
            wait: whether to wait for a sign of a process of another machine; see `Lease.acquire`.

        Raises:
            LeaseError: if another process holds the lease.
        """
        folder = self.folder(run)
        folder.parent.mkdir(parents=True, exist_ok=True)
        lease = Lease(LocalStore(folder.parent), folder.name, self._token, self._sleep)
        if wait:
            lease.acquire()
        else:
            # Of two processes that find the lease of a dead one, the second finds the lease of the first.
            with _lock(folder.parent):
                lease.acquire(wait=False)
        try:
            yield lease
        finally:
            lease.release()

    def execute(self, run: Run, executor: Executor, wait: bool = False) -> bool:
        """Executes a run and writes its record, unless another process has finished it.

        Expected errors of the command (`entry.errors.is_expected`) are recorded as the failure of the run.

        Args:
            run: the run.
            executor: executes the command.
            wait: as in `claim`.

        Returns:
            False if another process executes the run.
        """
        try:
            with self.claim(run, wait) as lease:
                if self.state(run).status is Status.PENDING:
                    self._execute(run, executor, lease)
        except LeaseError:
            return False
        return True

    def _execute(self, run: Run, executor: Executor, lease: Lease) -> None:
        identity = self._identity(run)
        record = Record(run.line, identity["settings"], identity["inputs"], host=socket.gethostname())
        save_json(record, self.record_path(run))
        began = time.monotonic()
        try:
            record = replace(record, result=_plain(executor(run)))
        except Exception as error:
            if not is_expected(error):
                raise
            record = replace(record, failure=one_line(error))
            print(f"the run {run.name} failed: {record.failure}", file=sys.stderr, flush=True)
        # The result of a process that was suspended for long belongs to another process.
        lease.check()
        self._old_failures.discard(run.name)
        save_json(replace(record, seconds=round(time.monotonic() - began, 1)), self.record_path(run))

    def execute_all(self, executor: Executor) -> None:
        """Executes all runs, and waits for those that other processes execute.

        Args:
            executor: executes the command of a run: `run_subprocess`, or a function of the caller.
        """
        announced = 0
        while pending := self.pending():
            if any(self._execute_next(run, executor) for run in pending):
                continue
            if announced != len(pending):
                announced = len(pending)
                print(f"\nwaiting for other processes, which execute {announced} runs", file=sys.stderr, flush=True)
            # Returns when the process shows a sign of life, when it finishes the run, or when its lease has ended.
            self.execute(pending[0], executor, wait=True)

    def _execute_next(self, run: Run, executor: Executor) -> bool:
        number, left = len(self.results()) + 1, self.remaining_seconds()

        def announced(run: Run) -> Mapping[str, Any]:
            remaining = "" if left is None else f", about {duration(left)} left"
            print(f"\nrun {number} of {len(self.runs)}: {run.name}{remaining}", file=sys.stderr, flush=True)
            return executor(run)

        return self.execute(run, announced)

    def _identity(self, run: Run) -> dict[str, dict[str, Any]]:
        for path in run.inputs.values():
            if path not in self._fingerprints:
                self._fingerprints[path] = fingerprint(path)
        inputs = {name: self._fingerprints[path] for name, path in run.inputs.items()}
        return {"settings": json.loads(json.dumps(run.settings)), "inputs": inputs}


def run_subprocess(run: Run) -> dict[str, Any]:
    """Executes the command of a run in a new process, which shows its progress; returns its summary.

    Raises:
        RuntimeError: if the command fails, with its error message.
        KeyboardInterrupt: if the command was interrupted.
    """
    argv = [sys.executable, "-m", "bert_tf", *run.command]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace")
        message = ""
        with process:
            for line in process.stderr or ():
                sys.stderr.write(line)
                message = line.strip() or message
        if process.returncode == _INTERRUPTED:
            raise KeyboardInterrupt
        if process.returncode:
            reason = message.removeprefix("bert-tf: error: ") or f"exit status {process.returncode}"
            raise RuntimeError(reason)
        output.seek(0)
        return json.loads(output.read().splitlines()[-1])


def duration(seconds: float) -> str:
    """Formats a time: `40 s`, `12 min`, `3.5 h`, `20 days`.

    Example:
        >>> from bert_tf.experiments.runs import duration
        >>> duration(40), duration(700), duration(12600), duration(1728000)
        ('40 s', '12 min', '3.5 h', '20 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours = seconds / 3600
    if hours < 1.5:
        return f"{seconds / 60:.0f} min"
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:,.0f} days"


def _plain(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a summary as JSON values; numbers that are not finite become None."""
    return json.loads(json.dumps(dict(summary)), parse_constant=lambda name: None)


def _line(work: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Fits seconds = start + rate * work by least squares; both are at least 0."""
    rate, start = statistics.linear_regression(work, seconds) if len(set(work)) > 1 else (0.0, -1.0)
    if rate < 0 or not any(work):
        return statistics.mean(seconds), 0.0
    if start >= 0:
        return start, rate
    return 0.0, statistics.linear_regression([0.0, *work], [0.0, *seconds], proportional=True).slope


def _differences(record: Record, identity: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the settings and inputs that differ from those of a record, as text; "" if there are none."""
    before, now = flatten(record.settings), flatten(identity["settings"])
    texts = [
        f"{name} {before.get(name)} (now {now.get(name)})"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    old, new = record.inputs, identity["inputs"]
    texts += [f"another {name}" for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    return ", ".join(texts)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Keeps other processes of this machine from changing leases in a directory; does nothing without locks."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
