"""The REST interface: formats, statuses and messages of TF Serving."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
from concurrent.futures import Future
from typing import Any

import pytest
import tensorflow as tf
from starlette.testclient import TestClient

from bert_tf.serving import metrics
from bert_tf.serving.http.app import RestOptions, create_app
from bert_tf.serving.http.request_body import BodyLimits
from bert_tf.serving.models import loaded_version
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.service import Service
from tests.support.export.presets import LABELS
from tests.support.serving.garbage import nothing_left_in_cycles

MODEL = "/v1/models/classifier"
PREDICT = f"{MODEL}:predict"
IDS = {"token_ids": [[2, 5, 3]], "segment_ids": [[0, 0, 0]], "padding_mask": [[1, 1, 1]]}


def post(rest: TestClient, body: Any, path: str = PREDICT) -> Any:
    return rest.post(path, content=body if isinstance(body, bytes) else json.dumps(body))


@pytest.mark.parametrize("path", [MODEL, f"{MODEL}/versions/1", f"{MODEL}/labels/stable"])
def test_status_has_the_format_of_tf_serving(rest: TestClient, path: str) -> None:
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


def test_row_and_column_formats_have_the_same_answers(rest: TestClient) -> None:
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


def test_a_signature_of_null_is_the_default_one(rest: TestClient) -> None:
    answer = post(rest, {"instances": ["cat"], "signature_name": None})
    assert answer.json() == post(rest, {"instances": ["cat"]}).json()


@pytest.mark.parametrize("depth", [8, 9, 32, 33, 64, 65, 900])
@pytest.mark.parametrize("form", ["inputs", "instances"])
@pytest.mark.parametrize("signature", ["serving_default", "ids"])
def test_deep_lists_are_refused(rest: TestClient, depth: int, form: str, signature: str) -> None:
    leaf = '"a"' if signature == "serving_default" else "1"
    # A list of rows has one more dimension than a row.
    value = "[" * depth + leaf + "]" * depth
    body = f'{{"signature_name": "{signature}", "{form}": {value}}}'
    if signature == "ids":
        ids = ", ".join(f'"{name}": {value}' for name in IDS)
        body = f'{{"signature_name": "ids", "{form}": {f"[{{{ids}}}]" if form == "instances" else f"{{{ids}}}"}}}'
    answer = post(rest, body.encode())
    rank = depth + (signature == "ids" and form == "instances")
    expected = "at most 8 dimensions" if rank > 8 else "Shape of tensor"
    assert (answer.status_code, expected in answer.json()["error"]) == (400, True), answer.text


def test_long_texts_are_refused(service: Service) -> None:
    narrow = Service(service.manager, service.metrics, Admission(2**20), max_text_bytes=10)
    rest = TestClient(create_app(narrow, RestOptions()), base_url="http://localhost")
    assert post(rest, {"instances": ["0123456789"] * 4}).status_code == 200
    for texts, message in ((["0123456789é"], "a text must have at most 10 bytes"), (["0123456789"] * 5, "all texts")):
        answer = post(rest, {"instances": texts})
        assert (answer.status_code, message in answer.json()["error"]) == (400, True), answer.text
    classify = {"signature_name": "classify", "examples": [{"text": "a long text"}]}
    assert "at most 10 bytes" in post(rest, classify, f"{MODEL}:classify").json()["error"]


def test_bytes_and_an_empty_batch_are_answered(rest: TestClient) -> None:
    plain, encoded = post(rest, {"instances": ["cat", {"b64": "Y2F0"}]}).json()["predictions"]
    assert plain["label"] == encoded["label"]
    # Within one batch, a matrix product may sum its last rows in another order than its first ones.
    assert plain["probabilities"] == pytest.approx(encoded["probabilities"], abs=1e-6)
    assert post(rest, {"instances": [{"b64": "//4AAMM="}]}).status_code == 200
    assert post(rest, {"inputs": []}).json() == {"outputs": {"label": [], "probabilities": []}}


def test_example_that_python_cannot_parse_is_refused(rest: TestClient) -> None:
    answer = post(rest, {"signature_name": "serve_examples", "instances": [{"b64": "//8="}]})
    assert answer.status_code == 400
    assert "bytes that are not valid UTF-8" in answer.json()["error"]


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
    ("POST", PREDICT, {"inputs": {f"x{n}": 1 for n in range(50)}}, 400, "does not match signature: 50!=1 len({text})"),
    ("POST", f"{MODEL}:classify", {"examples": [{f"x{n}": 1 for n in range(257)}]}, 400, "at most 256 features"),
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
def test_invalid_requests_are_explained(
    method: str, path: str, body: Any, status: int, message: str, rest: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    with nothing_left_in_cycles():
        answer = rest.request(method, path, content=None if body is None else content)
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text
    assert set(answer.json()) == {"error"}
    assert "[Op:" not in answer.json()["error"]
    assert rest.post(PREDICT, content=b'{"instances": ["still there"]}').status_code == 200


def test_size_of_a_response_is_limited(rest: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_failures_become_error_responses(
    error: Exception, status: int, rest: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> None:
        raise error

    monkeypatch.setattr(loaded_version.LoadedVersion, "answer", failing)
    answer = post(rest, {"instances": ["a"]})
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def exchange(
    app: Any, parts: list[bytes], *, headers: dict[str, str] | None = None, ends: bool = True
) -> tuple[int, bytes]:
    """Returns status and body of the response to a predict request whose body is sent in parts, perhaps without end."""
    sent: list[Any] = []
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if left:
            # Deadlines pass while many parts arrive.
            await asyncio.sleep(0.001)
            part = left.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(left) or not ends}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": PREDICT, "headers": raw, "query_string": b""}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("parts", "ends", "limits"),
    [
        ([b"{"], False, BodyLimits(seconds=1000, pause_seconds=0.05)),
        ([b"{" * 8192] * 2, False, BodyLimits(seconds=1000, pause_seconds=0.05)),
        ([b"{"], False, BodyLimits(seconds=0.05, pause_seconds=1000)),
        # Sends single bytes slowly.
        ([b"{"] * 300, True, BodyLimits(seconds=1000, pause_seconds=0.05)),
    ],
)
def test_stalled_body_times_out(parts: list[bytes], ends: bool, limits: BodyLimits, service: Service) -> None:
    status, body = exchange(create_app(service, RestOptions(body=limits)), parts, ends=ends)
    assert status == 408
    assert "a body must arrive within" in json.loads(body)["error"]


def test_arriving_large_bodies_do_not_block_small_ones(service: Service) -> None:
    admission = Admission(2**20)
    app = create_app(Service(service.manager, service.metrics, admission), RestOptions())
    with admission.request() as other:
        other.add(2**20)
        assert exchange(app, [b'{"instances": ["a"]}'])[0] == 200
        status, body = exchange(app, [b" " * 70000])
        assert (status, "try again later" in json.loads(body)["error"]) == (503, True)


def zipped(content: bytes) -> bytes:
    """Compresses without the time, which would make test ids differ between processes."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (zipped(b'{"instances": ["a"]}'), {"content-encoding": "gzip"}, 200, ""),
        (zipped(b'{"instances":') + zipped(b'["a"]}'), {"content-encoding": "GZIP"}, 200, ""),
        (b'{"instances": ["a"]}', {"content-encoding": "identity"}, 200, ""),
        (zipped(b" " * 20001), {"content-encoding": "gzip"}, 413, "at most 20000 bytes"),
        (zipped(b'{"instances": ["a"]}')[:-9], {"content-encoding": "gzip"}, 400, "the body is not gzip"),
        (b'{"instances": ["a"]}', {"content-encoding": "gzip"}, 400, "the body is not gzip"),
        (b"{}", {"content-encoding": "br"}, 415, "Content-Encoding must be gzip"),
        (b"{}", {"content-length": "20001"}, 413, "at most 20000 bytes"),
        (b"{}", {"content-length": "2", "transfer-encoding": "chunked"}, 400, "either Content-Length or"),
    ],
    ids=["gzip", "two members", "identity", "too large", "cut", "no gzip", "brotli", "length", "two lengths"],
)
def test_invalid_body_headers_are_refused(
    body: bytes, headers: dict[str, str], status: int, message: str, service: Service
) -> None:
    app = create_app(service, RestOptions(body=BodyLimits(20000)))
    found, answer = exchange(app, [body], headers=headers)
    assert (found, message in json.loads(answer).get("error", "")) == (status, True), answer


def test_disconnected_client_cancels_its_request(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    began, futures = threading.Event(), list[Future[Any]]()

    def waiting(self: Any, signature: str, inputs: Any, timeout: Any, cancellation: Cancellation) -> Any:
        futures.append(Future())
        cancellation.watch(futures[0])
        began.set()
        return futures[0].result(60)

    monkeypatch.setattr(loaded_version.LoadedVersion, "answer", waiting)
    messages = [{"type": "http.request", "body": b'{"instances": ["a"]}'}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        if len(messages) == 1:
            await asyncio.get_running_loop().run_in_executor(None, began.wait)
        return messages.pop(0)

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    statuses = list[Any]()
    scope = {"type": "http", "method": "POST", "path": PREDICT, "headers": [], "query_string": b""}
    asyncio.run(create_app(service, RestOptions())(scope, receive, send))
    assert futures[0].cancelled()
    assert statuses[0] == 499


def test_client_that_disconnects_while_sending_is_not_counted_as_failure(service: Service) -> None:
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
    assert rest.get("/livez").json()["alive"]
    assert rest.get("/models").json() == {"models": {"classifier": LABELS, "regression": []}}
    assert "text/html" in rest.get("/").headers["content-type"]
    post(rest, {"instances": ["a"]})
    post(rest, {"instances": ["a"]}, "/v1/models/made-up:predict")
    figures = rest.get("/monitoring/prometheus/metrics").text
    assert ':tensorflow:serving:request_count{model_name="classifier",status="OK"}' in figures
    assert ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"}' in figures
    assert ':tensorflow:serving:request_latency_bucket{API="predict",entrypoint="REST",le="10.0"' in figures
    assert ':tensorflow:serving:runtime_latency_count{API="Predict",model_name="classifier",runtime="TF1"}' in figures
    assert "made-up" not in figures


@pytest.mark.parametrize("version", ["", "/versions/1", "/labels/stable"])
def test_the_card_of_a_version_names_no_directories(version: str, rest: TestClient) -> None:
    answer = rest.get(f"/models/classifier{version}").json()
    assert (answer["version"], answer["versions"]) == (1, [1])
    card = answer["card"]
    assert (card["kind"], card["task"], card["labels"]) == ("BertTextClassifier", "classify", LABELS)
    assert card["model"]["num_layers"] == 2 and card["parameters"] > 0
    assert not {"source_preset", "signatures", "info"} & card.keys()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("made-up", 404),
        ("classifier/versions/7", 404),
        ("classifier/metadata", 400),
        ("..%2Fclassifier", 400),
        ("", 400),
    ],
)
def test_cards_that_are_not_there(path: str, status: int, rest: TestClient) -> None:
    answer = rest.get(f"/models/{path}")
    assert answer.status_code == status and set(answer.json()) == {"error"}


@pytest.mark.parametrize(("path", "statuses"), [("/metrics", [200, 400]), (None, [400, 400])])
def test_metrics_path_can_be_changed_or_disabled(path: str | None, statuses: list[int], service: Service) -> None:
    client = TestClient(create_app(service, RestOptions(metrics_path=path)), base_url="http://localhost")
    assert [client.get(asked).status_code for asked in ("/metrics", metrics.PATH)] == statuses


def test_examples_accept_any_bytes(rest: TestClient) -> None:
    body = {"signature_name": "classify", "examples": [{"text": {"b64": base64.b64encode(b"\xff\x00").decode()}}]}
    assert post(rest, body, f"{MODEL}:classify").status_code == 200
