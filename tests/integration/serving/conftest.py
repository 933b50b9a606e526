"""Fixtures with one service of several models, and its REST and gRPC interfaces, shared by all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from starlette.testclient import TestClient

from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.http.request_body import BodyLimits
from bert_tf.serving.models.versions import ServedModel
from bert_tf.serving.server import ServerOptions, loaded_service
from bert_tf.serving.service import Service

MAX_REQUEST_BYTES = 20000


@pytest.fixture(scope="session")
def service(exported: Callable[[str], Path]) -> Iterator[Service]:
    """Serves a classifier with the label `stable` and a regression model, without batching delay."""
    models = [
        ServedModel("classifier", exported("classifier").parent, labels={"stable": 1, "canary": 2}),
        ServedModel("regression", exported("regression").parent),
    ]
    with loaded_service(models, ServerOptions(poll_seconds=0, warm_up=False)) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def rest(service: Service) -> TestClient:
    """A REST client of the service in this process."""
    return TestClient(create_app(service, RestOptions(body=BodyLimits(MAX_REQUEST_BYTES))), base_url="http://localhost")


@pytest.fixture(scope="session")
def grpc_address(service: Service) -> Iterator[str]:
    """The gRPC address of the service."""
    server = GrpcServer(service, GrpcOptions(max_message_bytes=MAX_REQUEST_BYTES))
    port = server.add_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(scope="session")
def channel(grpc_address: str) -> Iterator[grpc.Channel]:
    """A channel to the gRPC address."""
    with grpc.insecure_channel(grpc_address) as opened:
        yield opened
