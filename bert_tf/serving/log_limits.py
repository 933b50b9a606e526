"""Limits repeated log messages, with which clients could otherwise fill the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

# Loggers with messages that a single client can cause.
_LOGGERS = ("asyncio", "uvicorn.error", "bert_tf.serving.http.connection", "bert_tf.serving.service")
_KEY_CHARACTERS = 60
_MAX_KEYS = 1000


class RepeatFilter(logging.Filter):
    """Passes a message once in each period, with the number of messages dropped since.

    Args:
        seconds: length of the period in seconds.
        clock: monotonic clock in seconds.
    """

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Message -> time of its last pass, and the number dropped since.
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns True if a record passes."""
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
    """Adds a `RepeatFilter` to the loggers whose messages clients can cause."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(existing, RepeatFilter) for existing in logger.filters):
            logger.addFilter(RepeatFilter())
