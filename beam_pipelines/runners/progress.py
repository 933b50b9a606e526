"""Progress lines on stderr while a pipeline runs on this machine.

Runners report nothing until a stage ends. Therefore workers append their progress to small files in a temporary
directory, and a thread of the driver sums them. Workers on other machines do not have this directory and report
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
    """Progress notes of workers in a directory; disabled if `directory` is empty."""

    directory: str = ""

    def note(self, what: str, amount: int) -> None:
        """Adds to a counter: `files`, `parts`, `parts_read`, `documents`, `text` (in bytes) or `shards`."""
        if self.directory:
            # Progress must not fail a run: the directory is missing on other machines, and its disk may be full.
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
    """Context manager that prints a progress line every few seconds.

    The lines begin with `what`, for example `data`. The other arguments are the files to read, an estimate of their
    bytes of text, and the shards to write (0 if there are none).
    """

    def __init__(self, what: str, files: int, text_bytes: int, shards: int = 0) -> None:
        self._what = what
        self._files, self._text_bytes, self._shards = files, text_bytes, shards
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
        """Returns the progress in one line; empty buckets have no shards, so counts may stay below the total."""
        totals = self.log.totals()
        elapsed = max(time.monotonic() - self._started, 1e-3)
        if not totals:
            state = "done" if finished else "the runner is starting (workers on other machines do not report here)"
            return f"{self._what}: {state}, {elapsed:.0f} s elapsed"
        reading = totals["files"] < self._files or totals["parts_read"] < totals["parts"]
        stage = "done" if finished else ("reading" if reading else "gathering and writing")
        parts = [
            f"{self._what}: {stage}",
            f"parts {totals['parts_read']}/{totals['parts']}",
            f"{totals['documents']} documents",
            f"{totals['text'] / 1e6:.1f} MB of text ({totals['text'] / 1e6 / elapsed:.1f} MB/s)",
        ]
        if self._shards:
            parts.append(f"shards {totals['shards']}/{self._shards}")
        share = totals["text"] / max(self._text_bytes, 1)
        if reading and not finished and 0.02 < share < 1:
            parts.append(f"reading ends in about {elapsed * (1 - share) / share:.0f} s")
        return ", ".join([*parts, f"{elapsed:.0f} s elapsed"])
