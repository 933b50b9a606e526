from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bert_tf.client import PredictError, connect, predict, rest


class _Canned(BaseHTTPRequestHandler):
    """Answers each POST with the server's `canned` status and body, and stores the requests."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received = (self.path, json.loads(body))
        status, content, *headers = self.server.canned
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.server.received = self.path
        self.send_response(self.server.canned[0])
        for name, value in self.server.canned[2:]:
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def canned() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), _Canned) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("suffix", ["", ":predict"])
def test_predict_sends_rows_and_returns_predictions(suffix: str, canned: Any) -> None:
    canned.canned = (200, b'{"predictions": [{"a": NaN}, 2]}')
    url = f"http://127.0.0.1:{canned.server_port}/v1/models/m{suffix}"
    first, second = predict(url, ["x", "y"], signature_name="ids")
    assert first["a"] != first["a"]
    assert second == 2
    assert canned.received == ("/v1/models/m:predict", {"instances": ["x", "y"], "signature_name": "ids"})
    predict(url, ("x",))
    assert canned.received[1] == {"instances": ["x"]}


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (400, b'{"error": "wrong"}', "400: wrong"),
        (502, b"<html>\xff", "502: <html>"),
        (200, b"hello", "200: not a response of a model server: b'hello'"),
        (200, b'{"outputs": []}', "not a response of a model server"),
        (200, b"[]", "not a response of a model server"),
    ],
)
def test_refused_requests_raise_the_reason(status: int, content: bytes, message: str, canned: Any) -> None:
    canned.canned = (status, content)
    with pytest.raises(PredictError, match=message) as error:
        predict(f"http://127.0.0.1:{canned.server_port}/v1/models/m", ["x"])
    assert error.value.status == status


def test_unreachable_server_is_reported() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1/models/m"
        with pytest.raises(ConnectionError, match=f"model server at {url}: "):
            predict(url, ["x"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirection_is_followed(status: int, canned: Any) -> None:
    with HTTPServer(("127.0.0.1", 0), _Canned) as other:
        # Its address takes connections, but nothing answers: a client that followed would wait for its time-out.
        canned.canned = (
            status,
            b"",
            ("Location", f"http://localhost:{other.server_port}/take"),
            ("Content-Length", "0"),
        )
        url = f"http://127.0.0.1:{canned.server_port}/v1/models/m"
        client = connect(url, token="secret", retries=0, timeout=5)
        for ask in (lambda: client.predict(["x"]), client.status):
            with pytest.raises(PredictError, match="the server redirects to 'http://localhost") as refused:
                ask()
            assert refused.value.status == status


def test_endless_answers_are_refused(canned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "_MAX_ANSWER_BYTES", 20)
    canned.canned = (200, b'{"predictions": [1]}')
    url = f"http://127.0.0.1:{canned.server_port}/v1/models/m"
    assert predict(url, ["x"]) == [1]
    canned.canned = (200, b'{"predictions": [1, 2]}')
    with pytest.raises(PredictError, match="must have at most 20 bytes"):
        predict(url, ["x"])
