"""The standard health check over gRPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.metrics import Metrics
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.service import Service

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
WATCH = "/grpc.health.v1.Health/Watch"


class Models:
    """Two models, one of them with an available version."""

    def __init__(self) -> None:
        self.answering = {"good": True, "damaged": False}

    @property
    def names(self) -> list[str]:
        return list(self.answering)

    def ready(self, name: str) -> bool:
        return self.answering[name]


@pytest.fixture
def service() -> Any:
    return Service(Models(), Metrics(), Admission(2**20))  # type: ignore[arg-type]


@pytest.fixture
def channel(service: Any) -> Iterator[grpc.Channel]:
    """A channel to a server of two threads."""
    server = GrpcServer(service, GrpcOptions(threads=2))
    port = server.add_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    server.stop(None)


def check(health: health_pb2_grpc.HealthStub, name: str = "") -> int:
    return health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status


def test_health_check_follows_the_models(channel: grpc.Channel, service: Any) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    assert [check(health, name) for name in ("", "good", "damaged")] == [NOT_SERVING, SERVING, NOT_SERVING]
    service.manager.answering["damaged"] = True
    assert [check(health, name) for name in ("", "good", "damaged")] == [SERVING] * 3
    with pytest.raises(grpc.RpcError) as refused:
        check(health, "other")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    service.drain()
    assert [check(health, name) for name in ("", "good")] == [NOT_SERVING] * 2


def test_health_watches_use_no_threads(channel: grpc.Channel, service: Any) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    ended = threading.Event()

    def silent() -> Iterator[bytes]:
        ended.wait()
        yield b""

    watches = [health.Watch(health_pb2.HealthCheckRequest(), timeout=60) for _ in range(4)]
    watches += [channel.stream_stream(WATCH)(silent(), timeout=60) for _ in range(4)]
    assert check(health, "good") == SERVING
    for watch in watches:
        with pytest.raises(grpc.RpcError) as refused:
            next(watch)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    ended.set()
