"""How many bytes of requests a server holds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import grpc

from bert_tf.export.serving.errors import ServingError


class WaitingBytes:
    """Counts the bytes of requests that have come and are not answered yet; threads may share it.

    Args:
        most: bytes of all requests together; one alone may have more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """Gives a block what counts bytes of its request as they come, and forgets them when the block ends.

        Where others wait and these are too many, what counts raises ServingError (UNAVAILABLE, 503).
        """
        held = 0

        def add(count: int) -> None:
            nonlocal held
            held += count
            with self._lock:
                self._waiting += count
                waiting = self._waiting
            if held < waiting > self._most:
                message = f"requests of more than {self._most} bytes wait already"
                raise ServingError(message, grpc.StatusCode.UNAVAILABLE)

        try:
            yield add
        finally:
            with self._lock:
                self._waiting -= held
