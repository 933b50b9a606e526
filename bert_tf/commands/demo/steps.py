"""Progress of numbered steps on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bert_tf.entry.amounts import in_time

# A step that takes a smaller share of its expected time reused the results of an earlier run.
_REUSED = 0.2
# Seconds that the estimate counts as taken as expected, so that the first step alone does not decide.
_PRIOR = 60.0


class Steps:
    """Reports the steps of a long command with their durations and the time left.

    Args:
        expected: seconds of each step on the machine where they were measured. The time left follows from the ratio of
            the steps so far.
    """

    def __init__(self, expected: Sequence[float]) -> None:
        self.expected = expected
        self.done = 0
        self.started = time.monotonic()
        self._expected = self._taken = 0.0

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Prints `title` at the start of the block; its duration and the time left at the end."""
        expected = self.expected[self.done]
        self.done += 1
        started = time.monotonic()
        self.say(f"\n[{self.done}/{len(self.expected)}] {title}: about {in_time(expected * self._pace)}")
        yield
        now = time.monotonic()
        if now - started > _REUSED * expected:
            self._expected += expected
            self._taken += now - started
        left = self._pace * sum(self.expected[self.done :])
        self.say(
            f"      {in_time(now - started)}, {in_time(now - self.started)} in all"
            f"{f', about {in_time(left)} left' if left else ''}"
        )

    def say(self, text: str) -> None:
        """Prints `text`."""
        print(text, file=sys.stderr, flush=True)

    @property
    def _pace(self) -> float:
        """Seconds that a second of the expected time takes here."""
        return (_PRIOR + self._taken) / (_PRIOR + self._expected)
