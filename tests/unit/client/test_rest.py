from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bert_tf.client import PredictError, predict


class _Canned(BaseHTTPRequestHandler):
    """Answers each POST with the server's `canned` status and body, and stores the requests."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received = (self.path, json.loads(body))
        status, content = self.server.canned
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

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
