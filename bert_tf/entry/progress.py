"""Progress lines of long work on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

from bert_tf.entry.printed import printable

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Reports count, throughput and remaining time on stderr.

    Args:
        what: name of the counted items, for example `rows`.
        total: total number of items; None if unknown.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._count = what, total, 0
        self._began = self._shown = time.monotonic()

    def add(self, count: int) -> None:
        """Adds to the count and prints a line every few seconds."""
        self._count += count
        now = time.monotonic()
        if now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        rate = self._count / (now - self._began)
        of_all = f" of {self._total}, {(self._total - self._count) / rate:.0f} s left" if self._total else ""
        print(f"{self._count} {self._what}{of_all}, {rate:.0f} a second", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_shown(name: str) -> Iterator[None]:
    """Prints the messages of a logger, and of those below it, to stderr within the block.

    Args:
        name: name of the logger, for example `bert_tf.export`. A line begins with the age of the process in seconds.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Elapsed())
    logger = logging.getLogger(name)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    # Libraries may add handlers to the root logger, which would print the messages again.
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class _Elapsed(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"[{record.relativeCreated / 1000:4.0f} s] {printable(record.getMessage())}"
