"""Progress of numbered steps on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Steps:
    """Reports the steps of a long command with their durations.

    Args:
        total: number of steps.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.started = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Prints `title` at the start of the block and its duration at the end."""
        self.done += 1
        started = time.monotonic()
        self.say(f"\n[{self.done}/{self.total}] {title}")
        yield
        now = time.monotonic()
        self.say(f"      {now - started:.0f} s, {now - self.started:.0f} s in all")

    def say(self, text: str) -> None:
        """Prints `text`."""
        print(text, file=sys.stderr, flush=True)
