"""A server that is shutting down answers all connected clients."""

from __future__ import annotations

import contextlib
import socket
import threading

from starlette.requests import Request
from starlette.responses import Response

from tests.support.serving.http_servers import PATIENCE_SECONDS, RunningServer, read_all, serving

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(request: Request) -> Response:
    return Response("hello")


def test_clients_in_the_backlog_are_answered() -> None:
    draining, connected = threading.Event(), threading.Event()

    def drain() -> None:
        # This blocks the event loop, so no connection is accepted until all clients have connected.
        draining.set()
        connected.wait(PATIENCE_SECONDS)

    with serving(hello, drain=drain) as server, contextlib.ExitStack() as stack:
        with server.connect(GET) as first:
            assert b"connection: close" not in first.recv(1000).lower()
        server.server.should_exit = True
        assert draining.wait(PATIENCE_SECONDS)
        clients = [stack.enter_context(server.connect(GET)) for _ in range(30)]
        late = stack.enter_context(server.connect())
        connected.set()
        answers = [read_all(client) for client in clients]
        late.sendall(GET)
        answers.append(read_all(late))
        server.stop()
        assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}
        assert all(b"connection: close" in answer.lower() for answer in answers)
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port)):
            raise AssertionError("the listener is still open")


def test_running_request_is_answered_during_shutdown() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> Response:
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        return Response("hello")

    def stop(server: RunningServer) -> None:
        server.stop()

    with serving(slow) as server, server.connect(GET) as opened:
        assert begun.wait(PATIENCE_SECONDS)
        server.server.should_exit = True
        go_on.set()
        assert read_all(opened).endswith(b"hello")
