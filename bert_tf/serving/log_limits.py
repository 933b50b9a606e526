"""A bound on repeated log messages, which clients could otherwise fill a disk with."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

# Loggers that write a message for what a single client did.
_LOGGERS = ("asyncio", "uvicorn.error", "bert_tf.serving.http_connection", "bert_tf.serving.service")
_KEY_CHARACTERS = 60
_MAX_KEYS = 1000


class RepeatFilter(logging.Filter):
    """Lets a message through once in a period, with the number of those left out since.

    Args:
        seconds: the period.
        clock: seconds that only grow.
    """

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Message -> when it was let through, and how many were left out since.
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True if a record is let through."""
        key = f"{record.name} {str(record.msg)[:_KEY_CHARACTERS]}"
        now = self._clock()
        with self._lock:
            since, left_out = self._seen.get(key, (-self._seconds, 0))
            if now - since < self._seconds:
                self._seen[key] = (since, left_out + 1)
                return False
            if len(self._seen) >= _MAX_KEYS:
                self._seen.clear()
            self._seen[key] = (now, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} more in {now - since:.0f} s)", ()
        return True


def limit_repeated_messages() -> None:
    """Bounds the messages that clients cause."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(found, RepeatFilter) for found in logger.filters):
            logger.addFilter(RepeatFilter())
