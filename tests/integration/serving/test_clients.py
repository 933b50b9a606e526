"""The package's client returns the same rows and errors over REST and gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bert_tf.client import ModelClient, PredictError, connect
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.service import Service

TEXTS = ["the cat sat", "a big red house", ""]


@pytest.fixture(scope="module")
def addresses(service: Service, grpc_address: str, listening: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    with listening(create_app(service, RestOptions())) as address:
        yield f"{address}/v1/models", f"grpc://{grpc_address}"


@pytest.fixture(params=["", "/versions/1", "/labels/stable"])
def both(request: pytest.FixtureRequest, addresses: tuple[str, str]) -> tuple[ModelClient, ModelClient]:
    rest, grpc = (connect(f"{address}/classifier{request.param}") for address in addresses)
    return rest, grpc


def close(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return found == pytest.approx(expected, abs=1e-6)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[key], expected[key]) for key in expected)
    return found == expected


def test_both_clients_return_the_same_predictions(both: tuple[ModelClient, ModelClient]) -> None:
    rest, grpc = both
    ids = {"token_ids": [2, 5, 3], "segment_ids": [0, 0, 0], "padding_mask": [1, 1, 1]}
    for instances, signature in ((TEXTS, None), ([{"text": text} for text in TEXTS], None), ([ids, ids], "ids")):
        assert close(grpc.predict(instances, signature), rest.predict(instances, signature))
    examples = [{"text": text} for text in TEXTS]
    assert close(grpc.classify(examples, "classify"), rest.classify(examples, "classify"))
    assert grpc.status() == rest.status() == [{"version": 1, "state": "AVAILABLE", "error": ""}]
    assert grpc.metadata() == rest.metadata()


def test_both_clients_return_the_same_numbers(addresses: tuple[str, str]) -> None:
    rest, grpc = (connect(f"{address}/regression") for address in addresses)
    examples = [{"text": text} for text in TEXTS]
    assert close(grpc.regress(examples, "regress"), rest.regress(examples, "regress"))
    assert close(grpc.predict(TEXTS), rest.predict(TEXTS))


@pytest.mark.parametrize(
    ("instances", "signature", "codes"),
    [
        (["a"], "none", {"INVALID_ARGUMENT", "FAILED_PRECONDITION"}),
        ([1], None, {"INVALID_ARGUMENT"}),
        ([{"none": "a"}], None, {"INVALID_ARGUMENT"}),
        ([{"text": "a"}, {}], None, {"INVALID_ARGUMENT"}),
        ([], None, {"INVALID_ARGUMENT"}),
    ],
)
def test_both_clients_raise_on_invalid_requests(
    instances: Any, signature: str | None, codes: set[str], both: tuple[ModelClient, ModelClient]
) -> None:
    for client in both:
        with pytest.raises(PredictError) as refused:
            client.predict(instances, signature)
        assert refused.value.code in codes


@pytest.mark.parametrize("path", ["none", "classifier/versions/9", "classifier/labels/canary"])
def test_both_clients_report_missing_models(path: str, addresses: tuple[str, str]) -> None:
    for address in addresses:
        with pytest.raises(PredictError, match="Servable not found for request") as refused:
            connect(f"{address}/{path}").predict(TEXTS)
        assert refused.value.code == "NOT_FOUND"


def test_unreachable_server_is_reported() -> None:
    with pytest.raises(ConnectionError, match="model server at 127.0.0.1:1: "):
        connect("grpc://127.0.0.1:1/m", retries=0).predict(TEXTS)
