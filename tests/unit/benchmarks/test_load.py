"""Tests the open loop: independent arrivals, latencies from the arrival, and the search for the highest rate."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from benchmarks import load
from benchmarks.clients import CLIENTS, Client, RequestError, RestClient, Target
from benchmarks.peers import requests


def test_arrivals_are_random_and_reproducible() -> None:
    times = load.arrivals(50, 100, seed=3)
    assert len(times) == 5000 and times[0] >= 0 and times[-1] < 100
    gaps = np.diff(times)
    assert (gaps > 0).all()
    # The gaps of a Poisson process have the mean 1 / rate and the same standard deviation.
    assert np.mean(gaps) == pytest.approx(0.02, rel=0.05) and np.std(gaps) == pytest.approx(0.02, rel=0.05)
    np.testing.assert_array_equal(times, load.arrivals(50, 100, seed=3))
    np.testing.assert_allclose(load.arrivals(100, 50, seed=3), times / 2)


def test_requests_do_not_wait_for_earlier_answers() -> None:
    async def run() -> list[Any]:
        last = asyncio.Event()

        async def send(number: int) -> None:
            if number == 2:
                last.set()
            await last.wait()

        return (await load.offer(send, np.zeros(3), timeout=60))[0]

    assert [kind for _, _, kind in asyncio.run(run())] == [None] * 3


def test_latency_is_measured_from_the_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(100.0, 0.0)
    passed = [0.0]
    monkeypatch.setattr(load.time, "perf_counter", lambda: next(now) + passed[0])

    async def send(number: int) -> None:
        # Blocks all others, like a client that is too slow.
        passed[0] += 1.0

    outcomes, seconds = asyncio.run(load.offer(send, np.array([0.0, 0.0, 0.5]), timeout=60))
    assert [late for late, _, _ in outcomes] == [0.0, 1.0, 1.5]
    assert [latency for _, latency, _ in outcomes] == [1.0, 2.0, 2.5]
    assert seconds == 3.0


def test_failures_are_counted_with_infinite_latency() -> None:
    async def send(number: int) -> None:
        if number < 2:
            raise RequestError("HTTP 503")
        await asyncio.Event().wait()

    outcomes, _ = asyncio.run(load.offer(send, np.zeros(3), timeout=0))
    failed = load.summary(10, outcomes, 2.0)
    assert failed.errors == {"HTTP 503": 2, "timeout": 1}
    assert failed.achieved == 0 and math.isinf(failed.p50)
    assert load.fields(failed)["p50"] is None


def test_percentiles_include_all_requests() -> None:
    latencies = [*np.random.default_rng(0).permutation(np.arange(1, 97)) / 1e3, *[math.inf] * 4]
    found = load.summary(5, [(0.002, value, "HTTP 500" if math.isinf(value) else None) for value in latencies], 20)
    assert (found.p50, found.p95, found.p99) == (pytest.approx(50), pytest.approx(95), math.inf)
    assert found.achieved == pytest.approx(96 / 20)
    assert found.late_p99 == pytest.approx(2)


def server_of(capacity: float) -> Callable[[float], load.Load]:
    """A server with a capacity of `capacity` requests per second."""

    def trial(rate: float) -> load.Load:
        p95 = 50.0 if rate <= capacity else math.inf
        return load.Load(rate, 1, rate, 1, p95, p95, 0, {})

    return trial


@pytest.mark.parametrize("capacity", [0.3, 7.9, 8.0, 23.0, 1000.0])
def test_search_ends_just_below_the_capacity_of_the_server(capacity: float) -> None:
    best = load.highest_rate(server_of(capacity), slo=200, start=8)
    assert best is not None
    assert capacity / 1.1 <= best.rate <= capacity


def test_server_without_answers_has_no_rate() -> None:
    assert load.highest_rate(server_of(0), slo=200, start=8) is None


class Rest(BaseHTTPRequestHandler):
    """Answers `:predict`; the text `bad` gets an error, `last` and `gone` a closed connection, announced or not."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, Any, int]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body, self.client_address[1]))
        text = body["instances"][0]["text"]
        answer = b'{"predictions": [1]}'
        self.send_response(503 if text == "bad" else 200)
        self.send_header("Content-Length", str(len(answer)))
        if text == "last":
            self.send_header("Connection", "close")
        self.close_connection = text in ("last", "gone")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Discards the log."""


class Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers Predict; the text `bad` gets an error."""

    def __init__(self, asked: list[Any]) -> None:
        self._asked = asked

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._asked.append(request)
        if request.inputs["text"].string_val[0] == b"bad":
            context.abort(grpc.StatusCode.UNAVAILABLE, "full")
        return predict_pb2.PredictResponse()


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a REST server."""
    monkeypatch.setattr(Rest, "asked", [], raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Rest) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def rpc() -> Iterator[tuple[int, list[Any]]]:
    """The port of a gRPC server, and the requests it received."""
    asked: list[Any] = []
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Grpc(asked), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port, asked
    server.stop(None).wait()


def failures_of(protocol: str, port: int, *requests: list[str]) -> list[str | None]:
    """The kinds of failure of sequential requests."""

    async def run() -> list[str | None]:
        client: Client = CLIENTS[protocol](Target("127.0.0.1", port, "encoder", "ids", "text"))
        kinds: list[str | None] = []
        for texts in requests:
            try:
                await client.predict(texts)
                kinds.append(None)
            except RequestError as error:
                kinds.append(str(error))
        await client.close()
        return kinds

    return asyncio.run(run())


def test_rest_requests_share_connections(rest: int) -> None:
    kinds = failures_of("rest", rest, ["é", "b"], ["bad"], ["last"], ["again"])
    assert kinds == [None, "HTTP 503", None, None]
    paths, bodies, ports = zip(*Rest.asked, strict=True)
    assert set(paths) == {"/v1/models/encoder:predict"}
    assert bodies[0] == {"signature_name": "ids", "instances": [{"text": "é"}, {"text": "b"}]}
    assert ports[0] == ports[1] == ports[2] != ports[3]


def test_connection_closed_by_the_server_is_not_reused(rest: int) -> None:
    async def run() -> None:
        client = RestClient(Target("127.0.0.1", rest, "encoder"))
        await client.predict(["gone"])
        ((reader, _),) = client._idle
        while not reader.at_eof():
            await asyncio.sleep(0)
        await client.predict(["a"])
        await client.close()

    asyncio.run(run())
    assert len({port for _, _, port in Rest.asked}) == 2


def test_grpc_requests_are_those_of_tf_serving(rpc: tuple[int, list[Any]]) -> None:
    port, asked = rpc
    assert failures_of("grpc", port, ["é", "b"], ["bad"]) == [None, "gRPC UNAVAILABLE"]
    assert (asked[0].model_spec.name, asked[0].model_spec.signature_name) == ("encoder", "ids")
    tensor = asked[0].inputs["text"]
    assert list(tensor.string_val) == ["é".encode(), b"b"] and tensor.tensor_shape.dim[0].size == 2


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_refused_connection_is_a_failure(protocol: str) -> None:
    # Port 1 requires privileges, so no server of a test uses it.
    (kind,) = failures_of(protocol, 1, ["a"])
    assert kind in ("ConnectionRefusedError", "gRPC UNAVAILABLE")


def measured(port: int, output: Path, *flags: str) -> dict[str, Any]:
    given = [f"--address=127.0.0.1:{port}", "--model=encoder", "--seconds=0.05", "--warmup=1", f"--output={output}"]
    load.run(load.arguments([*given, *flags]))
    (path,) = output.iterdir()
    return json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)


def test_rates_are_measured_and_reported(rest: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts"
    texts.write_text("cat\nbad\n", "utf-8")
    report = measured(rest, tmp_path / "out", "--rates", "80", "40", "--batch_size=2", f"--texts={texts}")
    assert [row["rate"] for row in report["loads"]] == [40, 80]
    assert [row["requests"] for row in report["loads"]] == [2, 4]
    assert all(row["errors"] == {} and row["p95"] > 0 for row in report["loads"])
    assert all([row["text"] for row in body["instances"]] == ["cat", "bad"] for _, body, _ in Rest.asked)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 3 and rows[1].startswith("| 40.0 |")


def test_mixed_texts_are_sent(rest: int, tmp_path: Path) -> None:
    measured(rest, tmp_path / "out", "--rates", "80", "--mixed")
    asked = [row["text"] for _, body, _ in Rest.asked for row in body["instances"]]
    assert asked and set(asked) <= set(requests.mixed_texts())


def test_search_reports_the_best_rate(rest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.Generator, "__call__", lambda self, rate: server_of(23)(rate))
    report = measured(rest, tmp_path / "out", "--slo=200")
    assert 23 / 1.1 <= report["best"]["rate"] <= 23
    assert report["loads"][-1]["p95"] is None


@pytest.mark.parametrize(
    "flags",
    [["--address=8501"], ["--address=host:port"], ["--seconds=0"], ["--rates", "1", "0"], ["--batch_size=-1"]],
    ids=lambda flags: " ".join(flags),
)
def test_arguments_out_of_range_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load.arguments(["--address=127.0.0.1:1", "--model=m", *flags])
    assert "Received: " in capsys.readouterr().err
