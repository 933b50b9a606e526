from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from export_presets import LABELS
from starlette.testclient import TestClient

from bert_tf.export import served_model, server
from bert_tf.export.client import PredictError, predict

CLASSIFY = "/v1/models/classifier:predict"
READY = r"serving version 1 of pretrainer at (http://127\.0\.0\.1:\d+/v1/models/pretrainer)\n"
IDS = {"token_ids": [[2, 5, 3]], "segment_ids": [[0, 0, 0]], "padding_mask": [[1, 1, 1]]}


@pytest.fixture(scope="module")
def client(exported: Callable[[str], Path]) -> TestClient:
    return TestClient(server.create_app(exported("classifier").parent, max_request_bytes=20000))


def post(client: TestClient, body: Any, path: str = CLASSIFY) -> Any:
    return client.post(path, content=body if isinstance(body, bytes) else json.dumps(body))


@pytest.mark.parametrize("path", ["/v1/models/classifier", "/v1/models/classifier/versions/1"])
def test_status_has_tf_servings_form(client: TestClient, path: str) -> None:
    health = {"error_code": "OK", "error_message": ""}
    assert client.get(path).json() == {
        "model_version_status": [{"version": "1", "state": "AVAILABLE", "status": health}]
    }


@pytest.mark.parametrize("path", ["/v1/models/classifier/metadata", "/v1/models/classifier/versions/1/metadata"])
def test_metadata_describes_the_signatures(client: TestClient, path: str) -> None:
    answer = client.get(path).json()
    assert answer["model_spec"] == {"name": "classifier", "signature_name": "", "version": "1"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "ids"} <= set(signatures)
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert signatures["ids"]["method_name"] == "tensorflow/serving/predict"


def test_rows_and_columns_have_the_same_answers(client: TestClient) -> None:
    texts = ["the cat sat", "a big red house"]
    answer = post(client, {"instances": texts})
    assert answer.headers["content-type"] == "application/json"
    predictions = answer.json()["predictions"]
    assert [set(row) for row in predictions] == [{"label", "probabilities"}] * 2
    assert all(row["label"] == LABELS[row["probabilities"].index(max(row["probabilities"]))] for row in predictions)
    assert post(client, {"instances": [{"text": text} for text in texts]}).json()["predictions"] == predictions
    outputs = post(client, {"inputs": texts}, "/v1/models/classifier/versions/1:predict").json()["outputs"]
    assert outputs == {key: [row[key] for row in predictions] for key in ("label", "probabilities")}
    by_ids = post(client, {"inputs": IDS, "signature_name": "ids"}).json()["outputs"]
    assert {len(by_ids["logits"][0]), len(by_ids["probabilities"][0])} == {3}


def test_bytes_and_an_empty_batch_are_answered(client: TestClient) -> None:
    plain, encoded = post(client, {"instances": ["cat", {"b64": "Y2F0"}]}).json()["predictions"]
    assert plain["label"] == encoded["label"]
    # Rows of one batch: a matrix product may add up its last rows in another order than its first.
    assert plain["probabilities"] == pytest.approx(encoded["probabilities"], abs=1e-6)
    assert post(client, {"instances": [{"b64": "//4AAMM="}]}).status_code == 200
    assert post(client, {"inputs": []}).json() == {"outputs": {"label": [], "probabilities": []}}


def test_an_example_of_bytes_that_python_cannot_read_back_is_refused(client: TestClient) -> None:
    answer = post(client, {"signature_name": "serve_examples", "instances": [{"b64": "//8="}]})
    assert answer.status_code == 400
    assert "bytes that are no UTF-8" in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/v1/models/other", None, 404, "Could not find any versions of model other"),
        ("GET", "/v1/models/classifier/versions/9", None, 404, "Could not find version 9 of model classifier"),
        ("GET", "/v1/models/other/metadata", None, 404, "Servable not found for request: Latest(other)"),
        (
            "POST",
            "/v1/models/x:predict",
            {"instances": ["a"]},
            404,
            "Servable not found for request: Latest(x)",
        ),
        (
            "POST",
            "/v1/models/classifier/versions/9:predict",
            {"instances": ["a"]},
            404,
            "Servable not found for request: Specific(classifier, 9)",
        ),
        ("POST", "/v1/models/classifier:classify", {}, 400, "Malformed request: POST /v1/models/classifier:classify"),
        ("GET", "/", None, 400, "Malformed request: GET /"),
        ("PUT", CLASSIFY, {}, 400, f"Malformed request: PUT {CLASSIFY}"),
        (
            "POST",
            CLASSIFY,
            {"instances": ["a"], "signature_name": "x"},
            400,
            'Serving signature name: "x" not found in signature def',
        ),
        ("POST", CLASSIFY, b"{", 400, "JSON Parse error: Expecting property name"),
        ("POST", CLASSIFY, {"instances": [3]}, 400, "input text: expected a string. Received: 3"),
        ("POST", CLASSIFY, {"inputs": {}}, 400, "input size does not match signature: 0!=1 len({}) != len({text})"),
        ("POST", CLASSIFY, {"inputs": "a"}, 400, "Shape of tensor text [] is not compatible with expected shape [?]"),
        ("POST", CLASSIFY, {"inputs": [["a"]]}, 400, "Shape of tensor text [1,1] is not compatible"),
        (
            "POST",
            CLASSIFY,
            {"signature_name": "ids", "inputs": IDS | {"token_ids": [[2, -5, 3]]}},
            400,
            "assertion failed: [token_ids must lie in 0..25; smallest and largest] [Received:] [-5] [3]",
        ),
        ("POST", CLASSIFY, {"instances": ["a"] * 129}, 400, "at most 128 rows. Received: 129"),
        ("POST", CLASSIFY, {"instances": ["a" * 20000]}, 413, "a request must have at most 20000 bytes"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(
    method: str, path: str, body: Any, status: int, message: str, client: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.request(method, path, content=None if body is None else content)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"].startswith(message) or message in answer.json()["error"]
    assert "[Op:" not in answer.json()["error"]
    assert client.post(CLASSIFY, content=b'{"instances": ["still there"]}').status_code == 200


def test_an_answer_has_a_limit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_model, "MAX_ANSWER_VALUES", 7)
    assert post(client, {"instances": ["a"]}).status_code == 200
    answer = post(client, {"instances": ["a", "b"]})
    assert answer.status_code == 400
    assert answer.json()["error"] == "an answer must have at most 7 values. Received: 8"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "no memory"), 429),
        (tf.errors.InternalError(None, None, "broken"), 500),
        (KeyError("a bug"), 500),
    ],
)
def test_a_failure_is_an_answer_too(
    error: Exception, status: int, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> None:
        raise error

    monkeypatch.setattr(served_model.ServedModel, "predict", failing)
    answer = post(client, {"instances": ["a"]})
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no exported model"):
        server.create_app(tmp_path)
    (tmp_path / ".staging-2").mkdir()
    (tmp_path / "1").mkdir()
    with pytest.raises(ValueError, match=r"saved_model.pb: not a readable SavedModel"):
        server.create_app(tmp_path)
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a readable SavedModel"):
        server.create_app(tmp_path)


@pytest.fixture(scope="module")
def process(exported: Callable[[str], Path]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its model's URL."""
    code = "import sys; from bert_tf.export.server import serve; serve(sys.argv[1], port=0); print('stopped')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(exported("pretrainer").parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(READY, line):
            yield process, found[1]
            break
    else:
        pytest.fail(f"the server did not start: {said}")
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_real_server_answers_and_stops_when_told(process: tuple[subprocess.Popen[str], str]) -> None:
    running, url = process
    with urllib.request.urlopen(url, timeout=60) as response:
        assert json.load(response)["model_version_status"][0]["state"] == "AVAILABLE"
    row = predict(url, ["the [MASK] sat on a [MASK]"])[0]
    assert [len(candidates) for candidates in row["tokens"]] == [5, 5]
    assert predict(f"{url}:predict", [{"text": "cat"}], signature_name="embed")[0].keys() == {
        "pooled_output",
        "mean_output",
    }
    with pytest.raises(PredictError, match="400: input text: expected a string. Received: 1") as error:
        predict(url, [1])
    assert error.value.status == 400
    with pytest.raises(PredictError, match="Servable not found"):
        predict(f"{url}x", ["a"])
    port = int(url.split(":")[2].split("/")[0])
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
        server.serve("anything", port=port)
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "stopped\n")


def test_both_signals_end_a_server_quietly() -> None:
    with server._stopped_by_signals():
        raise KeyboardInterrupt
    before = signal.getsignal(signal.SIGTERM)
    with server._stopped_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
