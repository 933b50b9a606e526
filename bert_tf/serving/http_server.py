"""uvicorn with connections that are bounded, and a stop that answers every client that is connected."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Callable
from typing import Any, cast

from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.supervisors import multiprocess

from bert_tf.serving.http_connection import MAX_ACCEPTED, BoundedConnection

logger = logging.getLogger(__name__)

_FIRST_REQUEST_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_STEP_SECONDS = 0.05


class _EventLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio, whose servers give clients less than a minute for the handshake of TLS."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS
        return await super().create_server(*args, **kwargs)


class DrainingConfig(Config):
    """Configuration of uvicorn, and how it stops. The application is called as it is, and logs are the program's.

    Args:
        args: of uvicorn.
        drain_seconds: that the server goes on for when it is told to stop.
        kwargs: of uvicorn.
    """

    def __init__(self, *args: Any, drain_seconds: float, **kwargs: Any) -> None:
        kwargs |= {"log_config": None, "access_log": False, "server_header": False, "ws": "none"}
        # Proxies' headers say which client and scheme a request came by, and any client can send them.
        kwargs["proxy_headers"] = False
        # asyncio accepts as many connections at once, before any of them can be closed to make room.
        kwargs["backlog"] = MAX_ACCEPTED
        super().__init__(*args, **kwargs)
        self.drain_seconds = drain_seconds

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """Returns the class of the event loop."""
        return _EventLoop


class DrainingServer(Server):
    """Stops in three steps, so that no client is reset.

    First it goes on for `drain_seconds`, tells load balancers that it is not ready, and has clients close their
    connections after the next response. Then it takes the connections that wait in the listener's backlog, and closes
    the listener. Then it waits for the requests of all connections.

    Args:
        config: names an application with `state.drain`, which is called when the stop begins.
    """

    def __init__(self, config: DrainingConfig) -> None:
        super().__init__(config)
        self._drain_seconds = config.drain_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops the server."""
        self.config.loaded_app.state.drain()
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE_HEADER]
        await self._wait(lambda: False, self._drain_seconds)
        for listener in sockets or []:
            await self._accept_pending(listener)
        for server in self.servers:
            server.close()
        await self._wait(self._all_have_sent, _FIRST_REQUEST_SECONDS)
        await super().shutdown(sockets)

    def _all_have_sent(self) -> bool:
        connections = self.server_state.connections
        return not any(isinstance(found, BoundedConnection) and found.is_fresh for found in connections)

    async def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while not done() and not self.force_exit and clock() < end:
            await asyncio.sleep(_STEP_SECONDS)

    async def _accept_pending(self, listener: socket.socket) -> None:
        """Accepts the connections of the backlog, which the system resets when the listener is closed."""
        loop = asyncio.get_running_loop()
        # The loop's server fails connections that it has accepted but not handed over when it is closed.
        loop.remove_reader(listener)
        await asyncio.sleep(_STEP_SECONDS)
        connection_class: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        protocol = functools.partial(
            connection_class,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        connecting = []
        # Ends where the backlog is empty, or the limit on open files is reached.
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted = loop.connect_accepted_socket(protocol, connection, ssl=self.config.ssl)
                connecting.append(asyncio.ensure_future(accepted))
        if connecting:
            # Clients that do not finish the handshake of TLS are not waited for.
            await asyncio.wait([asyncio.gather(*connecting, return_exceptions=True)], timeout=_FIRST_REQUEST_SECONDS)


class _Worker(multiprocess.Process):
    """A process of `DrainingServer`."""

    @property
    def server(self) -> Server:
        """The server of this process."""
        if self._server is None:
            self._server = DrainingServer(cast(DrainingConfig, self.config))
        return self._server


# uvicorn has no parameter for the class of its processes, and makes them in four places.
multiprocess.Process = _Worker  # type: ignore[misc]


class DrainingWorkers(multiprocess.Multiprocess):
    """Runs several processes of `DrainingServer` on one listener, and starts one again that dies."""

    def terminate_all(self) -> None:
        """Tells the processes to stop."""
        # The last process that has the listener takes what waits in its backlog, and then closes it.
        for listener in self.sockets:
            listener.close()
        super().terminate_all()
