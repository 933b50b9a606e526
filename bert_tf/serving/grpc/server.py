"""The gRPC server: limits of connections and calls, and the event loop that reads them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from bert_tf.serving.access import Tokens
from bert_tf.serving.grpc.reader import ReaderLimits, RequestReader
from bert_tf.serving.grpc.services import add_services
from bert_tf.serving.requests.threads import RequestThreads
from bert_tf.serving.service import Service

# Time-outs for the first HTTP/2 frames and for a connection without calls; clients reconnect automatically.
_HANDSHAKE_MILLISECONDS, _IDLE_MILLISECONDS = 5_000, 60_000
# Shortest time between the pings of a client, and the pings that may come sooner before its connection is closed.
_PING_MILLISECONDS, _PING_STRIKES = 10_000, 2


@dataclass(frozen=True)
class GrpcOptions:
    """Limits of the gRPC interface. Larger or more requests are rejected with RESOURCE_EXHAUSTED."""

    max_message_bytes: int = 16 * 2**20
    max_requests: int = 512  # answered at once
    message_seconds: float = 5.0  # time-out for the arrival of a message
    max_patient: int = 16  # calls that have this time at once; further ones have half a second
    max_waiting: int = 4096  # calls that wait for their message; the oldest one ends for a further one
    max_streams: int = 1024  # open calls of a connection; its client holds further ones back
    threads: int = 64  # that answer requests
    max_connections: int = 1000  # open ones; further ones are closed
    tokens: Tokens | None = None  # bearer tokens, one of which a call must have; None for no authentication
    # HandleReloadConfigRequest may change the models: any client can make the server read any folder of the machine.
    allow_reload_config: bool = False


class GrpcServer:
    """A gRPC server for a service, with an event loop in a thread of its own. Add a port, then start it."""

    def __init__(self, service: Service, options: GrpcOptions) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="grpc", daemon=True)
        self._thread.start()
        self._server: grpc.aio.Server = self._run(_created, service, options)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listens on an address, with TLS if there are credentials; returns the port. Raises RuntimeError."""
        if credentials is None:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, credentials)

    def start(self) -> None:
        """Starts to answer calls."""
        self._run(self._server.start)

    def stop(self, grace: float | None) -> None:
        """Refuses further calls, waits `grace` seconds for the open ones, and cancels the rest."""
        self._run(self._server.stop, grace)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, start: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        async def awaited() -> Any:
            return await start(*args)

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


async def _created(service: Service, options: GrpcOptions) -> grpc.aio.Server:
    limits = ReaderLimits(options.message_seconds, options.max_patient, options.max_waiting, options.max_requests)
    threads = RequestThreads(options.threads, "grpc")
    server = grpc.aio.server(
        interceptors=[RequestReader(service.admission, limits, threads, options.tokens)],
        options=[
            ("grpc.max_receive_message_length", options.max_message_bytes),
            # The size of a response is limited by its number of values.
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", options.max_streams),
            ("grpc.max_allowed_incoming_connections", options.max_connections),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
            ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
            ("grpc.http2.min_ping_interval_without_data_ms", _PING_MILLISECONDS),
            ("grpc.http2.max_ping_strikes", _PING_STRIKES),
        ],
    )
    add_services(server, service, allow_reload=options.allow_reload_config)
    return server
