"""Cancels the work of clients that have disconnected."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from typing import Any


class Cancellation:
    """Drops the waiting work of one request; thread-safe. Running work ends, as TensorFlow cannot be interrupted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: set[Future[Any]] = set()
        self._cancelled = False

    def watch(self, future: Future[Any]) -> None:
        """Cancels a future together with the request; immediately if the request is already cancelled."""
        with self._lock:
            if not self._cancelled:
                self._futures.add(future)
        if self._cancelled:
            future.cancel()
        future.add_done_callback(self._forget)

    def cancel(self) -> None:
        """Cancels the request."""
        with self._lock:
            self._cancelled = True
            futures = list(self._futures)
        for future in futures:
            future.cancel()

    def check(self) -> None:
        """Raises CancelledError if the request is cancelled."""
        if self._cancelled:
            raise CancelledError

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._futures.discard(future)
