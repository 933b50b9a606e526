"""Repeated log messages are limited, and the access log has a line for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import grpc
import pytest
from starlette.testclient import TestClient
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from bert_tf.serving.logs import RepeatFilter, access_logger


def test_a_repeated_message_is_logged_once_in_a_period() -> None:
    now = [0.0]
    repeat = RepeatFilter(seconds=60, clock=lambda: now[0])

    def logged(message: str, *args: object) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, message, args, None)
        return record.getMessage() if repeat.filter(record) else None

    assert logged("more than %d connections", 7) == "more than 7 connections"
    assert [logged("more than %d connections", 7) for _ in range(50)] == [None] * 50
    assert logged("something else") == "something else"
    now[0] = 61.0
    assert logged("more than %d connections", 8) == "more than 8 connections (50 more in 61 s)"
    assert logged("more than %d connections", 9) is None
    now[0] = 200.0
    assert logged("more than %d connections", 9) == "more than 9 connections (1 more in 139 s)"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Starts the access log and returns its lines."""
    with caplog.at_level(logging.INFO, access_logger.name):
        yield caplog


def test_rest_and_grpc_requests_are_logged(
    lines: pytest.LogCaptureFixture, rest: TestClient, channel: grpc.Channel
) -> None:
    rest.get("/v1/models/classifier?text=secret")
    rest.post("/v1/models/nothing:predict", content=b'{"instances": ["a"]}')
    rest.get("/models", headers={"host": "evil.example"})
    assert set(rest.get("/models%0d%0aforged").json()) == {"error"}
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "nothing"
    with pytest.raises(grpc.RpcError):
        model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=60)
    found = [record.getMessage() for record in lines.records if record.name == access_logger.name]
    ends = [line.split(" ", 1)[1].rsplit(" ", 2)[0] for line in found]
    assert ends == [
        '"GET /v1/models/classifier" 200',
        '"POST /v1/models/nothing:predict" 404',
        '"GET /models" 403',
        '"GET /models%0d%0aforged" 404',
        '"gRPC /tensorflow.serving.ModelService/GetModelStatus" NOT_FOUND',
    ]


def test_requests_are_not_logged_by_default(rest: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    rest.get("/models")
    assert [record for record in caplog.records if record.name == access_logger.name] == []
