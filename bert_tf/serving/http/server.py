"""uvicorn server with bounded connections and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import CLOSE_HEADER

from bert_tf.serving.http.connection import MAX_ACCEPTED, BoundedConnection

logger = logging.getLogger(__name__)

_FIRST_REQUEST_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_STEP_SECONDS = 0.05


class _EventLoop(asyncio.SelectorEventLoop):
    """The asyncio event loop with a shorter TLS handshake time-out than the default of a minute."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS
        return await super().create_server(*args, **kwargs)


def _nothing() -> None:
    """Does nothing; a configuration is sent to other processes, which a lambda cannot be."""


class DrainingConfig(Config):
    """uvicorn configuration with the drain time of `DrainingServer`, and without uvicorn's log configuration.

    `reread` is called on SIGHUP before the certificate is read again; it raises ValueError or OSError for files that
    cannot be used.
    """

    def __init__(self, *args: Any, drain_seconds: float, reread: Callable[[], None] = _nothing, **kwargs: Any) -> None:
        kwargs |= {"log_config": None, "access_log": False, "server_header": False, "ws": "none"}
        # Proxy headers name the client and scheme of a request, but any client can send them.
        kwargs["proxy_headers"] = False
        # asyncio accepts up to this many connections at once, before any of them can be closed to make room.
        kwargs["backlog"] = MAX_ACCEPTED
        super().__init__(*args, **kwargs)
        self.drain_seconds = drain_seconds
        self.reread = reread

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """Returns the class of the event loop."""
        return _EventLoop


class DrainingServer(Server):
    """Server that shuts down in three steps, so that no connection is reset.

    First it calls the application's `state.drain` and continues for `drain_seconds`, reports to load balancers that it
    is not ready, and asks clients to close their connections after the next response. Then it accepts the connections
    in the listener's backlog and closes the listener. Finally it waits for the requests of all connections.
    """

    def __init__(self, config: DrainingConfig) -> None:
        super().__init__(config)
        self._drain_seconds = config.drain_seconds

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles the stop signals, and SIGHUP, which would end the process, within the block."""
        with super().capture_signals():
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            former = signal.signal(signal.SIGHUP, lambda *_: self._reread())
            # `Workers` blocks the signal until there is a handler.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, former)

    def _reread(self) -> None:
        """Reads the certificate and the tokens again, for further connections and requests."""
        config = cast(DrainingConfig, self.config)
        try:
            # First, because OpenSSL forgets the former certificate before it checks the new one.
            config.reread()
            if config.ssl is not None and config.ssl_certfile is not None:
                config.ssl.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password="")
                if config.ssl_ca_certs is not None:
                    config.ssl.load_verify_locations(config.ssl_ca_certs)
        except (ValueError, OSError) as error:
            logger.error("certificate and tokens are those of before: %s", error)
            return
        logger.warning("certificate and tokens were read again")

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
        return not any(isinstance(one, BoundedConnection) and one.is_fresh for one in connections)

    async def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while not done() and not self.force_exit and clock() < end:
            await asyncio.sleep(_STEP_SECONDS)

    async def _accept_pending(self, listener: socket.socket) -> None:
        """Accepts the connections in the backlog, which the system would reset when the listener is closed."""
        loop = asyncio.get_running_loop()
        # When the loop's server is closed, connections fail that it has accepted but not passed on.
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
        # Ends if the backlog is empty or the limit on open files is reached.
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted = loop.connect_accepted_socket(protocol, connection, ssl=self.config.ssl)
                connecting.append(asyncio.ensure_future(accepted))
        if connecting:
            # Does not wait longer for clients that do not finish the TLS handshake.
            await asyncio.wait([asyncio.gather(*connecting, return_exceptions=True)], timeout=_FIRST_REQUEST_SECONDS)
