"""The REST surface: TF Serving's forms, statuses and messages."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import tensorflow as tf
from export_presets import LABELS
from garbage import nothing_left_in_cycles
from starlette.testclient import TestClient

from bert_tf.export.serving import loaded_version
from bert_tf.export.serving.rest import RestOptions, create_app
from bert_tf.export.serving.service import Service
from bert_tf.export.serving.waiting import WaitingBytes

MODEL = "/v1/models/classifier"
PREDICT = f"{MODEL}:predict"
IDS = {"token_ids": [[2, 5, 3]], "segment_ids": [[0, 0, 0]], "padding_mask": [[1, 1, 1]]}


def post(rest: TestClient, body: Any, path: str = PREDICT) -> Any:
    return rest.post(path, content=body if isinstance(body, bytes) else json.dumps(body))


@pytest.mark.parametrize("path", [MODEL, f"{MODEL}/versions/1", f"{MODEL}/labels/stable"])
def test_status_has_tf_servings_form(rest: TestClient, path: str) -> None:
    health = {"error_code": "OK", "error_message": ""}
    assert rest.get(path).json() == {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": health}]}


@pytest.mark.parametrize(
    "path", [f"{MODEL}/metadata", f"{MODEL}/versions/1/metadata", f"{MODEL}/labels/stable/metadata"]
)
def test_metadata_describes_the_signatures(rest: TestClient, path: str) -> None:
    answer = rest.get(path).json()
    assert answer["model_spec"] == {"name": "classifier", "signature_name": "", "version": "1"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "ids"} <= set(signatures)
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert signatures["classify"]["method_name"] == "tensorflow/serving/classify"


def test_rows_and_columns_have_the_same_answers(rest: TestClient) -> None:
    texts = ["the cat sat", "a big red house"]
    answer = post(rest, {"instances": texts})
    assert answer.headers["content-type"] == "application/json"
    predictions = answer.json()["predictions"]
    assert [set(row) for row in predictions] == [{"label", "probabilities"}] * 2
    assert all(row["label"] == LABELS[row["probabilities"].index(max(row["probabilities"]))] for row in predictions)
    assert post(rest, {"instances": [{"text": text} for text in texts]}).json()["predictions"] == predictions
    outputs = post(rest, {"inputs": texts}, f"{MODEL}/versions/1:predict").json()["outputs"]
    assert outputs == {key: [row[key] for row in predictions] for key in ("label", "probabilities")}
    by_label = post(rest, {"instances": texts}, f"{MODEL}/labels/stable:predict").json()["predictions"]
    assert by_label == predictions
    by_ids = post(rest, {"inputs": IDS, "signature_name": "ids"}).json()["outputs"]
    assert {len(by_ids["logits"][0]), len(by_ids["probabilities"][0])} == {3}


def test_classes_and_numbers_of_examples(rest: TestClient) -> None:
    texts = ["the cat sat", "a big red house"]
    rows = post(rest, {"instances": texts}).json()["predictions"]
    body = {"signature_name": "classify", "examples": [{"text": texts[0]}, {"text": [texts[1]]}]}
    results = post(rest, body, f"{MODEL}:classify").json()["results"]
    assert [[label for label, _ in row] for row in results] == [LABELS, LABELS]
    assert [[score for _, score in row] for row in results] == [
        pytest.approx(row["probabilities"], abs=1e-6) for row in rows
    ]
    shared = {"signature_name": "classify", "context": {"text": texts[0]}, "examples": [{}, {"text": texts[1]}]}
    assert post(rest, shared, f"{MODEL}:classify").json()["results"] == results
    numbers = post(rest, {"instances": texts}, "/v1/models/regression:predict").json()["predictions"]
    body = {"signature_name": "regress", "examples": [{"text": text} for text in texts]}
    found = post(rest, body, "/v1/models/regression:regress").json()["results"]
    assert found == pytest.approx(numbers, abs=1e-6)


def test_bytes_and_an_empty_batch_are_answered(rest: TestClient) -> None:
    plain, encoded = post(rest, {"instances": ["cat", {"b64": "Y2F0"}]}).json()["predictions"]
    assert plain["label"] == encoded["label"]
    # Rows of one batch: a matrix product may add up its last rows in another order than its first.
    assert plain["probabilities"] == pytest.approx(encoded["probabilities"], abs=1e-6)
    assert post(rest, {"instances": [{"b64": "//4AAMM="}]}).status_code == 200
    assert post(rest, {"inputs": []}).json() == {"outputs": {"label": [], "probabilities": []}}


def test_an_example_of_bytes_that_python_cannot_read_back_is_refused(rest: TestClient) -> None:
    answer = post(rest, {"signature_name": "serve_examples", "instances": [{"b64": "//8="}]})
    assert answer.status_code == 400
    assert "bytes that are no UTF-8" in answer.json()["error"]


LATEST, NOT_THERE = (
    "Servable not found for request: Latest(x)",
    "Servable not found for request: Specific(classifier, 9)",
)
REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/v1/models/x", None, 404, "Could not find any versions of model x"),
    ("GET", f"{MODEL}/versions/9", None, 404, "Could not find version 9 of model classifier"),
    ("GET", f"{MODEL}/labels/canary", None, 404, "Could not find version 2 of model classifier"),
    ("GET", f"{MODEL}/labels/no", None, 400, "Unrecognized servable version label: no"),
    ("GET", "/v1/models/x/metadata", None, 404, LATEST),
    ("GET", f"{MODEL}/versions/99999999999999999999", None, 400, "Failed to convert version: 99999999999999999999"),
    ("GET", f"{MODEL}/versions/{'9' * 5000}", None, 400, "Failed to convert version: 9999"),
    ("GET", f"{MODEL}/versions/00009", None, 404, "Could not find version 9 of model classifier"),
    ("POST", "/v1/models/x:predict", {"instances": ["a"]}, 404, LATEST),
    ("POST", f"{MODEL}/versions/9:predict", {"instances": ["a"]}, 404, NOT_THERE),
    ("POST", f"{MODEL}/labels/no:predict", {"instances": ["a"]}, 400, "Unrecognized servable version label: no"),
    ("POST", "/v1/models/..%2F..%2Fetc:predict", {"instances": ["a"]}, 400, "Malformed request"),
    ("POST", MODEL, {}, 400, f"Malformed request: POST {MODEL}"),
    ("GET", "/v1/models", None, 400, "Malformed request: GET /v1/models"),
    ("GET", "/etc/passwd", None, 400, "Malformed request: GET /etc/passwd"),
    ("PUT", PREDICT, {}, 400, f"Malformed request: PUT {PREDICT}"),
    ("POST", PREDICT, {"instances": ["a"], "signature_name": "x"}, 400, 'Serving signature name: "x" not found'),
    ("POST", PREDICT, b"{", 400, "JSON Parse error: Expecting property name"),
    ("POST", PREDICT, {"instances": [3]}, 400, "input text: expected a string. Received: 3"),
    ("POST", PREDICT, {"inputs": {}}, 400, "input size does not match signature: 0!=1 len({}) != len({text})"),
    ("POST", PREDICT, {"inputs": "a"}, 400, "Shape of tensor text [] is not compatible with expected shape [?]"),
    ("POST", PREDICT, {"inputs": [["a"]]}, 400, "Shape of tensor text [1,1] is not compatible"),
    (
        "POST",
        PREDICT,
        {"signature_name": "ids", "inputs": IDS | {"token_ids": [[2, -5, 3]]}},
        400,
        "assertion failed: [token_ids must lie in 0..25; smallest and largest] [Received:] [-5] [3]",
    ),
    ("POST", PREDICT, {"instances": ["a"] * 129}, 400, "at most 128 rows. Received: 129"),
    ("POST", PREDICT, {"instances": ["a" * 20000]}, 413, "a request must have at most 20000 bytes"),
    ("POST", f"{MODEL}:classify", {}, 400, "'examples' must be a list of at least one element. Received: None"),
    ("POST", f"{MODEL}:classify", {"examples": [{"text": "a"}]}, 400, "No classification inputs found in SignatureDef"),
    (
        "POST",
        f"{MODEL}:classify",
        {"examples": [{}], "signature_name": "x"},
        400,
        "No signature was found with the name: x",
    ),
    ("POST", f"{MODEL}:classify", {"examples": [{}] * 129}, 400, "at most 128 rows. Received: 129"),
    ("POST", f"{MODEL}:classify", {"examples": ["a"]}, 400, "Example must be JSON object but got 'a'"),
    ("POST", f"{MODEL}:classify", {"examples": [{"text": ["a", 1]}]}, 400, "Unexpected element type in feature: text"),
    ("POST", f"{MODEL}:classify", {"examples": [{"text": [True]}]}, 400, "Feature: text has element with unexpected"),
    ("POST", f"{MODEL}:regress", {"examples": [{"text": "a"}], "signature_name": "ids"}, 400, "Expected one input"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"), REFUSED, ids=[f"{number}" for number in range(len(REFUSED))]
)
def test_what_is_wrong_with_a_request_is_said(
    method: str, path: str, body: Any, status: int, message: str, rest: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    with nothing_left_in_cycles():
        answer = rest.request(method, path, content=None if body is None else content)
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text
    assert set(answer.json()) == {"error"}
    assert "[Op:" not in answer.json()["error"]
    assert rest.post(PREDICT, content=b'{"instances": ["still there"]}').status_code == 200


def test_an_answer_has_a_limit(rest: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_version, "MAX_ANSWER_VALUES", 7)
    assert post(rest, {"instances": ["a"]}).status_code == 200
    answer = post(rest, {"instances": ["a", "b"]})
    assert (answer.status_code, answer.json()["error"]) == (400, "an answer must have at most 7 values. Received: 8")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "no memory"), 429),
        (tf.errors.InternalError(None, None, "broken"), 500),
        (KeyError("a bug"), 500),
        (TimeoutError(), 504),
    ],
)
def test_a_failure_is_an_answer_too(
    error: Exception, status: int, rest: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> None:
        raise error

    monkeypatch.setattr(loaded_version.LoadedVersion, "answer", failing)
    answer = post(rest, {"instances": ["a"]})
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


async def _slow(first: bytes) -> AsyncIterator[bytes]:
    yield first
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (_slow(b"{"), 408, "the body must arrive within 0.05 seconds"),
        (b'{"instances": []}', 503, "requests of more than 5 bytes wait already"),
    ],
)
def test_bodies_that_are_too_slow_or_too_many(body: Any, status: int, message: str, service: Service) -> None:
    waiting = WaitingBytes(5)
    app = create_app(Service(service.manager, service.metrics, waiting), RestOptions(body_seconds=0.05))
    sent = []

    async def receive() -> dict[str, Any]:
        if isinstance(body, bytes):
            return {"type": "http.request", "body": body}
        return {"type": "http.request", "body": await anext(body), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": PREDICT, "headers": [], "query_string": b""}
    with waiting.request() as other:
        other(1)
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == status
    assert message in json.loads(sent[1]["body"])["error"]


def test_a_client_that_goes_away_half_way_is_no_failure(service: Service) -> None:
    app, sent = create_app(service, RestOptions()), []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": PREDICT, "headers": [], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    assert (sent[0]["status"], sent[1]["body"]) == (499, b"")


def test_readiness_models_metrics_and_the_page(rest: TestClient) -> None:
    assert rest.get("/readyz").json() == {"ready": {"classifier": True, "regression": True}}
    assert rest.get("/models").json() == {"models": {"classifier": LABELS, "regression": []}}
    assert "text/html" in rest.get("/").headers["content-type"]
    post(rest, {"instances": ["a"]})
    post(rest, {"instances": ["a"]}, "/v1/models/made-up:predict")
    figures = rest.get("/monitoring/prometheus/metrics").text
    assert ':tensorflow:serving:request_count{model_name="classifier",status="OK"}' in figures
    assert ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"}' in figures
    assert ':tensorflow:serving:request_latency_bucket{API="Predict",entrypoint="REST",le="10.0"' in figures
    assert "made-up" not in figures


def test_bytes_of_an_example_may_be_anything(rest: TestClient) -> None:
    body = {"signature_name": "classify", "examples": [{"text": {"b64": base64.b64encode(b"\xff\x00").decode()}}]}
    assert post(rest, body, f"{MODEL}:classify").status_code == 200
