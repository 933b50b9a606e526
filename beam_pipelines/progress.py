"""Progress lines on stderr while a pipeline runs on this machine.

Runners report nothing until a stage ends, so workers append what they did to small files in a temporary
directory, and a thread of the driver adds them up. Workers on other machines find no such directory and say
nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True)
class ProgressLog:
    """Where workers note what they did: a directory, or nothing."""

    directory: str = ""

    def note(self, what: str, amount: int) -> None:
        """Adds `amount` to the count of `what` (`read` bytes, `files`, `shards`)."""
        if self.directory:
            # Progress must not end a run: the directory is absent on other machines and may share a full disk.
            with contextlib.suppress(OSError), Path(self.directory, f"{os.getpid()}.log").open("a") as file:
                file.write(f"{what} {amount}\n")

    def totals(self) -> Counter[str]:
        """Returns the sum of all notes."""
        totals: Counter[str] = Counter()
        for path in Path(self.directory).glob("*.log"):
            for line in path.read_text().splitlines():
                what, _, amount = line.partition(" ")
                totals[what] += int(amount or 0)
        return totals


class ProgressReporter:
    """Prints a line every few seconds between entering and leaving.

    Args:
        what: the name of the work, for example `data`.
        total_bytes: bytes on disk to read.
        total_files: files to read.
        total_shards: shards to write; 0 where none are.
    """

    def __init__(self, what: str, total_bytes: int, total_files: int, total_shards: int = 0) -> None:
        self._what = what
        self._bytes, self._files, self._shards = total_bytes, total_files, total_shards
        self._folder = tempfile.TemporaryDirectory(prefix="bert_tf_progress_")
        self.log = ProgressLog(self._folder.name)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._started = time.monotonic()

    def __enter__(self) -> ProgressReporter:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        if kind is None:
            print(self.line(finished=True), file=sys.stderr)
        self._folder.cleanup()

    def _loop(self) -> None:
        while not self._done.wait(_SECONDS_BETWEEN_LINES):
            print(self.line(), file=sys.stderr)

    def line(self, finished: bool = False) -> str:
        """Returns the state of the work in one line; `finished` when nothing is left to do (buckets may be empty)."""
        totals = self.log.totals()
        elapsed = max(time.monotonic() - self._started, 1e-3)
        share = min(1.0, totals["read"] / max(self._bytes, 1))
        reading = not finished and totals["files"] < self._files
        stage = "done" if finished else ("reading" if reading else "gathering and writing")
        parts = [
            f"{self._what}: {stage}",
            f"files {totals['files']}/{self._files}",
            f"{totals['read'] / 1e6:.1f} of {self._bytes / 1e6:.1f} MB ({totals['read'] / 1e6 / elapsed:.1f} MB/s)",
        ]
        if self._shards:
            parts.append(f"shards {totals['shards']}/{self._shards}")
        if reading and share > 0.02:
            parts.append(f"reading ends in {elapsed * (1 - share) / share:.0f} s")
        return ", ".join([*parts, f"{elapsed:.0f} s elapsed"])
