"""Connections without a request are closed and do not block others."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from bert_tf.serving.http.connection import ConnectionLimits, reserve_descriptors
from tests.support.serving.http_servers import PATIENCE_SECONDS, read_all, serving, until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SOON = ConnectionLimits(header_seconds=0.1)


async def hello(request: Request) -> Response:
    return Response("hello")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_incomplete_header_times_out(sent: bytes) -> None:
    with serving(hello, SOON) as server, server.connect(sent) as opened:
        assert read_all(opened) == b""


def test_the_deadline_starts_again_with_each_response() -> None:
    with serving(hello, SOON) as server, server.connect(GET) as opened:
        opened.sendall(GET + b"GET / HTT")
        assert read_all(opened).count(b"hello") == 2


def test_refused_body_is_not_read() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nhalf a body"
    with serving(hello, SOON) as server, server.connect(head) as opened:
        assert read_all(opened).endswith(b"hello")


def test_running_request_has_no_header_deadline() -> None:
    closed = threading.Event()

    async def slow(request: Request) -> Response:
        # Longer than the deadline; a later connection is closed in the meantime.
        await asyncio.get_running_loop().run_in_executor(None, closed.wait)
        return Response("hello")

    with serving(slow, SOON) as server, server.connect(GET) as answered:
        with server.connect() as idle:
            assert read_all(idle) == b""
        closed.set()
        assert read_all(answered).endswith(b"hello")


def test_oldest_idle_connection_is_closed_first() -> None:
    with serving(hello, ConnectionLimits(connections=3)) as server, contextlib.ExitStack() as stack:
        oldest = stack.enter_context(server.connect())
        for _ in range(2):
            stack.enter_context(server.connect())
        for _ in range(20):
            with server.connect(GET[:-2] + b"Connection: close\r\n\r\n") as asking:
                assert read_all(asking).endswith(b"hello")
        assert read_all(oldest) == b""


def test_new_connection_is_refused_if_all_are_busy() -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    async def slow(request: Request) -> Response:
        begun.release()
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait)
        return Response("hello")

    with serving(slow, ConnectionLimits(connections=2)) as server, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(server.connect(GET)) for _ in range(2)]
        for _ in busy:
            assert begun.acquire(timeout=PATIENCE_SECONDS)
        with server.connect() as further:
            assert read_all(further).startswith(b"HTTP/1.1 503 ")
        go_on.set()
        assert all(opened.recv(1000).startswith(b"HTTP/1.1 200") for opened in busy)


def test_client_that_does_not_read_is_disconnected() -> None:
    async def large(request: Request) -> Response:
        return Response(b"x" * 2**25)

    with serving(large, ConnectionLimits(write_seconds=0.1)) as server, socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.settimeout(PATIENCE_SECONDS)
        opened.connect(("127.0.0.1", server.port))
        opened.sendall(GET)
        assert until(lambda: bool(server.server.server_state.connections))
        assert until(lambda: not server.server.server_state.connections)


@pytest.mark.parametrize(
    ("limits", "expected", "raised"),
    [
        ((1024, 1024), 384, 1024),
        ((1024, 4096), 1000, 2256),
        ((4096, 8192), 1000, None),
        ((100, 100), 1, 100),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1000, None),
        ((1024, resource.RLIM_INFINITY), 1000, 2256),
    ],
)
def test_connections_are_limited_by_file_descriptors(
    limits: tuple[int, int], expected: int, raised: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, found: calls.append(found))
    assert reserve_descriptors(1000, surfaces=2) == expected
    assert calls == ([] if raised is None else [(raised, limits[1])])
