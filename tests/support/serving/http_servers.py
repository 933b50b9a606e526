"""HTTP servers without models, in threads."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

from bert_tf.serving.http.connection import BoundedConnection, ConnectionLimits
from bert_tf.serving.http.server import DrainingConfig, DrainingServer

# Time-out of a test whose condition never becomes true.
PATIENCE_SECONDS = 60


class RunningServer:
    """A running server.

    Args:
        server: uvicorn server.
        port: port that it listens on.
        thread: thread that it runs in.
    """

    def __init__(self, server: DrainingServer, port: int, thread: threading.Thread) -> None:
        self.server, self.port, self._thread = server, port, thread

    def connect(self, content: bytes = b"") -> socket.socket:
        """Opens a connection and sends data."""
        opened = socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS)
        opened.sendall(content)
        return opened

    def stop(self) -> None:
        """Stops the server and waits for its end."""
        self.server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def serving(
    answer: Callable[..., Any], limits: ConnectionLimits | None = None, drain: Callable[[], None] = lambda: None
) -> Iterator[RunningServer]:
    """Yields a server with one Starlette handler for all paths."""
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    app.state.drain = drain
    connection = functools.partial(BoundedConnection, limits=limits or ConnectionLimits())
    config = DrainingConfig(app, http=connection, drain_seconds=0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = DrainingServer(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running = RunningServer(server, port, thread)
        try:
            yield running
        finally:
            running.stop()


def read_all(opened: socket.socket) -> bytes:
    """Returns the data that arrives until the server closes the connection."""
    parts = []
    while part := opened.recv(65536):
        parts.append(part)
    return b"".join(parts)


def until(holds: Callable[[], bool]) -> bool:
    """Waits until a condition of the server's thread is true; returns False after the time-out."""
    waiter = threading.Event()
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds() and time.monotonic() < end:
        waiter.wait(0.01)
    return holds()
