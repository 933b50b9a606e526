"""Bounds on the bytes of requests that a server holds in memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from bert_tf.serving.errors import ServingError

# Requests of this size are admitted while larger ones are refused. A text of the longest sequence has a tenth of it.
SMALL_BYTES = 64 * 2**10
# Share of the bound on large requests that small ones have for themselves.
_SMALL_SHARE = 0.25


@dataclass
class _Pool:
    """Bytes of one kind of requests.

    Args:
        name: as errors call the requests.
        most: bytes of all requests together; one alone may have more.
        held: bytes that are there.
    """

    name: str
    most: int
    held: int = 0


class Admission:
    """Counts the bytes of requests that have arrived and are not answered yet; threads may share it.

    Requests of at most `SMALL_BYTES` bytes, large ones that are still arriving, and large ones that are being answered
    have bounds of their own. A client that sends a large body and pauses therefore keeps out neither small requests nor
    large ones that have arrived.

    Args:
        most: bytes of all large requests that arrive, and of all that are being answered; one alone may have more.
    """

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._small = _Pool("small requests", max(1, int(most * _SMALL_SHARE)))
        self._arriving = _Pool("requests that are arriving", most)
        self._complete = _Pool("requests that are being answered", most)

    @contextlib.contextmanager
    def request(self) -> Iterator[Admitted]:
        """Gives a block a request to count the bytes of; they are released when the block ends."""
        admitted = Admitted(self)
        try:
            yield admitted
        finally:
            with self._lock:
                admitted.pool.held -= admitted.size

    def update(self, admitted: Admitted, size: int, complete: bool) -> None:
        """Sets the size of a request.

        Args:
            admitted: the request.
            size: its bytes so far.
            complete: whether these are all.

        Raises:
            ServingError: UNAVAILABLE (503) where the requests of its kind have too many bytes.
        """
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

    @property
    def first_pool(self) -> _Pool:
        """The pool that requests are counted in before they have any bytes."""
        return self._small


class Admitted:
    """The bytes of one request.

    Args:
        admission: counts them.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.pool = admission.first_pool
        self.size = 0

    def add(self, count: int) -> None:
        """Counts bytes that have arrived. Raises ServingError where there are too many."""
        self._admission.update(self, self.size + count, complete=False)

    def complete(self) -> None:
        """Counts the request among those being answered. Raises ServingError where these are too many."""
        self._admission.update(self, self.size, complete=True)
