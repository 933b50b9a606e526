"""Runs the conformance suite on the embedded server, and on one with wrong responses.

`python -m bert_tf.export.conformance` runs the same suite on any server.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bert_tf.export.conformance import suite as conformance
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.server import ServerOptions, loaded_service
from tests.support.export.presets import KINDS


@contextlib.contextmanager
def served(folder: Path, listening: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Serves a version on both ports, and yields their addresses."""
    options = ServerOptions(poll_seconds=0, warm_up=False)
    with loaded_service([ServedModel(folder.parent.name, folder.parent)], options) as service:
        grpc = GrpcServer(service, GrpcOptions())
        grpc_port = grpc.add_port("127.0.0.1:0")
        grpc.start()
        with listening(create_app(service, RestOptions())) as address:
            yield address, f"127.0.0.1:{grpc_port}"
        grpc.stop(None)


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "classifier" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_the_embedded_server_conforms(
    kind: str,
    exported: Callable[[str], Path],
    listening: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served(exported(kind), listening) as (rest, grpc):
        status = conformance.main([str(exported(kind)), "--rest", rest, "--grpc", grpc])
    stdout = capsys.readouterr().out
    assert (status, "FAILED" in stdout) == (0, False), stdout
    assert "requests, 0 not answered as TF Serving does" in stdout
    assert int(stdout.split()[0]) > 30


class _Wrong(BaseHTTPRequestHandler):
    """Answers all requests with status 200 and an empty body."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"outputs": {}, "predictions": [], "results": []}).encode())

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *args: Any) -> None:
        pass


def test_server_with_wrong_answers_fails_conformance(
    exported: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Wrong) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        status = conformance.main([str(exported("classifier")), "--rest", f"http://127.0.0.1:{server.server_port}"])
        server.shutdown()
        thread.join()
    stdout = capsys.readouterr().out.splitlines()
    assert status == 1
    assert len([line for line in stdout if line.startswith("FAILED")]) == len(stdout) - 1 == int(stdout[-1].split()[0])


def test_address_is_required(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        conformance.main([str(tmp_path)])
    assert "at least one of --rest and --grpc is required" in capsys.readouterr().err
