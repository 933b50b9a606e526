"""HTTP connections with deadlines and a limit on open connections."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

# Maximum number of connections that are accepted at once.
MAX_ACCEPTED = 128
# File descriptors for these connections, and for models, listeners, logs and threads; TensorFlow alone opens about 30.
_RESERVED_DESCRIPTORS = MAX_ACCEPTED + 128
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of the HTTP connections of a process."""

    connections: int = 1000  # if there are more, the one that has waited longest for a request is closed
    header_seconds: float = 10.0  # for a request's headers, from the start or the last response
    write_seconds: float = 30.0  # for a client to read a response


def reserve_descriptors(connections: int, surfaces: int) -> int:
    """Raises the limit on open files if `connections` on each of `surfaces` listeners need it.

    Returns the number of connections, reduced if the hard limit requires it, but at least 1.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections * surfaces + _RESERVED_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    room = max(1, (allowed - _RESERVED_DESCRIPTORS) // surfaces)
    if room < connections:
        logger.warning("%d connections at most: the limit on open files (RLIMIT_NOFILE) is %d", room, hard)
    return room


class BoundedConnection(H11Protocol):
    """HTTP connection with a deadline for each request.

    uvicorn has a time-out only for idle connections after a response: a client that connects and sends half a header
    would keep its connection forever.
    """

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._waiting_since = 0.0
        self._header_deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    @property
    def waits_for_request(self) -> bool:
        """Returns True if no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_fresh(self) -> bool:
        """Returns True if the connection has not had a request yet."""
        return self.cycle is None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the deadline, and closes another connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._make_room()
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the deadlines."""
        super().connection_lost(exc)
        self._stop_header_deadline()
        if self._write_deadline is not None:
            self._write_deadline.cancel()

    def handle_events(self) -> None:
        """Handles received data."""
        super().handle_events()
        self._update_deadline()

    def on_response_complete(self) -> None:
        """Starts the deadline for the next request."""
        super().on_response_complete()
        self._update_deadline()

    def pause_writing(self) -> None:
        """Starts the deadline for a client that does not read."""
        super().pause_writing()
        if self._write_deadline is None:
            self._write_deadline = self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops the deadline for a client that does not read."""
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def send_400_response(self, msg: str) -> None:
        """Refuses a request that is not HTTP in the form of all errors, and closes the connection."""
        content = json.dumps({"error": msg}).encode()
        length = str(len(content)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def close(self) -> None:
        """Closes the connection between two requests."""
        self._stop_header_deadline()
        if not self.transport.is_closing():
            self.transport.close()
            # A client that does not read would keep the connection open with unsent data.
            self.loop.call_later(self._limits.write_seconds, self.transport.abort)

    def _make_room(self) -> None:
        waiting = [other for other in self.connections if isinstance(other, BoundedConnection) and other is not self]
        waiting = [other for other in waiting if other.waits_for_request and not other.transport.is_closing()]
        logger.warning("more than %d connections are open; closing idle ones", self._limits.connections)
        if waiting:
            min(waiting, key=lambda other: other._waiting_since).close()
            return
        self.transport.write(_FULL)
        self.transport.close()

    def _update_deadline(self) -> None:
        if not self.waits_for_request or self.transport.is_closing():
            self._stop_header_deadline()
        elif self._header_deadline is None:
            self._waiting_since = self.loop.time()
            self._header_deadline = self.loop.call_later(self._limits.header_seconds, self.close)

    def _stop_header_deadline(self) -> None:
        if self._header_deadline is not None:
            self._header_deadline.cancel()
            self._header_deadline = None
