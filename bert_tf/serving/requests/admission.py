"""Limits the bytes of requests that a server holds in memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.memory import trim_heap

# Requests up to this size are admitted while larger ones are rejected. The longest useful text has a tenth of it.
SMALL_BYTES = 64 * 2**10
# Limit on small requests, as a fraction of the limit on large ones.
_SMALL_SHARE = 0.25


@dataclass
class _Pool:
    """Bytes of one kind of requests."""

    name: str  # in errors
    most: int  # of all requests together; a single one may have more
    held: int = 0  # current bytes


class Admission:
    """Counts the bytes of requests until they are answered; thread-safe.

    There are separate limits for requests of at most `SMALL_BYTES` bytes, for large requests that are still arriving,
    and for large requests that are being answered: `most` bytes for each of the latter, though a single one may have
    more. A client that pauses while it sends a large body therefore blocks neither small requests nor large ones that
    have arrived.

    The memory of large requests lies between objects that live longer, so glibc does not return it by itself. `trim`
    returns it, in a thread of its own, each time that `most` bytes of large requests have ended.
    """

    def __init__(self, most: int, trim: Callable[[], None] = trim_heap) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._trim = trim
        # Bytes of large requests that have ended since the last call of `trim`.
        self._ended = 0
        self._small = _Pool("small requests", max(1, int(most * _SMALL_SHARE)))
        self._arriving = _Pool("requests that are arriving", most)
        self._complete = _Pool("requests that are being answered", most)

    @contextlib.contextmanager
    def request(self) -> Iterator[Admitted]:
        """Yields a counter for the bytes of one request, which are released after the block."""
        admitted = Admitted(self, self._small)
        try:
            yield admitted
        finally:
            with self._lock:
                admitted.pool.held -= admitted.size
                self._ended += admitted.size if admitted.size > SMALL_BYTES else 0
                trims = self._ended >= self._most
                if trims:
                    self._ended = 0
            if trims:
                threading.Thread(target=self._trim, name="trim", daemon=True).start()

    def update(self, admitted: Admitted, size: int, complete: bool) -> None:
        """Sets the bytes of a request so far. Raises ServingError, UNAVAILABLE (503), if its kind has too many."""
        large = self._complete if complete else self._arriving
        pool = self._small if size <= SMALL_BYTES else large
        with self._lock:
            admitted.pool.held -= admitted.size
            admitted.pool, admitted.size = pool, size
            pool.held += size
            held = pool.held
        if size < held > pool.most:
            message = f"{pool.name} hold more than {pool.most} bytes; try again later"
            raise ServingError(message, grpc.StatusCode.UNAVAILABLE)


class Admitted:
    """Byte counter of one request."""

    def __init__(self, admission: Admission, pool: _Pool) -> None:
        self._admission = admission
        self.pool = pool
        self.size = 0
        self._complete = False

    def add(self, count: int) -> None:
        """Counts bytes that have arrived or were decompressed. Raises ServingError if there are too many."""
        self._admission.update(self, self.size + count, self._complete)

    def complete(self) -> None:
        """Marks the request as complete. Raises ServingError if too many bytes are being answered."""
        self._complete = True
        self._admission.update(self, self.size, complete=True)
