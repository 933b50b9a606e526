"""The gRPC interface returns the same results as REST, with TF Serving's codes and messages."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from starlette.testclient import TestClient
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.support.export.presets import LABELS
from tests.support.serving.garbage import nothing_left_in_cycles

TEXTS = ["the cat sat", "a big red house"]
IDS = {"token_ids": [[2, 5, 3]], "segment_ids": [[0, 0, 0]], "padding_mask": [[1, 1, 1]]}


def predict_request(model: str = "classifier", signature: str = "", **inputs: Any) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, value in inputs.items():
        tensor = value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value)
        request.inputs[name].CopyFrom(tensor)
    return request


def examples(request: Any, texts: list[str]) -> Any:
    for text in texts:
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        request.input.example_list.examples.add().features.feature["text"].CopyFrom(feature)
    return request


@pytest.fixture(scope="module")
def prediction(channel: grpc.Channel) -> prediction_service_pb2_grpc.PredictionServiceStub:
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def models(channel: grpc.Channel) -> model_service_pb2_grpc.ModelServiceStub:
    return model_service_pb2_grpc.ModelServiceStub(channel)


def test_predictions_equal_those_of_rest(prediction: Any, rest: TestClient) -> None:
    response = prediction.Predict(predict_request(text=TEXTS), timeout=60)
    rows = rest.post("/v1/models/classifier:predict", json={"instances": TEXTS}).json()["predictions"]
    assert response.model_spec.name == "classifier"
    assert (response.model_spec.version.value, response.model_spec.signature_name) == (1, "serving_default")
    assert tf.make_ndarray(response.outputs["label"]).tolist() == [row["label"].encode() for row in rows]
    found = tf.make_ndarray(response.outputs["probabilities"])
    np.testing.assert_allclose(found, [row["probabilities"] for row in rows], atol=1e-6)
    # The same fields as in TF Serving, for clients that read them.
    assert len(response.outputs["probabilities"].float_val) == 6


def test_output_filter_selects_outputs(prediction: Any) -> None:
    request = predict_request(text=TEXTS)
    request.output_filter.append("label")
    assert set(prediction.Predict(request, timeout=60).outputs) == {"label"}


@pytest.mark.parametrize("choice", ["version", "version_label"])
def test_a_version_can_be_chosen(choice: str, prediction: Any) -> None:
    request = predict_request(text=TEXTS)
    if choice == "version":
        request.model_spec.version.value = 1
    else:
        request.model_spec.version_label = "stable"
    assert prediction.Predict(request, timeout=60).model_spec.version.value == 1


def test_classify_regress_and_both_at_once(prediction: Any) -> None:
    classify = examples(classification_pb2.ClassificationRequest(), TEXTS)
    classify.model_spec.name, classify.model_spec.signature_name = "classifier", "classify"
    classes = prediction.Classify(classify, timeout=60)
    assert [[one.label for one in row.classes] for row in classes.result.classifications] == [LABELS, LABELS]
    regress = examples(regression_pb2.RegressionRequest(), TEXTS)
    regress.model_spec.name, regress.model_spec.signature_name = "regression", "regress"
    numbers = prediction.Regress(regress, timeout=60).result.regressions
    response = prediction.Predict(predict_request("regression", text=TEXTS), timeout=60)
    expected = tf.make_ndarray(response.outputs["number"])
    np.testing.assert_allclose([one.value for one in numbers], expected, atol=1e-6)
    multi = examples(inference_pb2.MultiInferenceRequest(), TEXTS)
    multi.tasks.add(model_spec=classify.model_spec, method_name="tensorflow/serving/classify")
    [result] = prediction.MultiInference(multi, timeout=60).results
    assert result.classification_result == classes.result


@pytest.mark.parametrize(
    ("spec", "method", "code", "message"),
    [
        ({}, "predict", grpc.StatusCode.UNIMPLEMENTED, "Unsupported signature method_name"),
        ({"name": ""}, "classify", grpc.StatusCode.INVALID_ARGUMENT, "Found ModelSpec with an empty model name."),
        ({"name": "regression"}, "regress", grpc.StatusCode.INVALID_ARGUMENT, "must access the same model name"),
        (
            {"signature_name": "none"},
            "regress",
            grpc.StatusCode.INVALID_ARGUMENT,
            "Requested signature not found in model graph: none",
        ),
        ({}, "regress", grpc.StatusCode.INVALID_ARGUMENT, "Expected one output Tensor."),
        (
            {"signature_name": "classify"},
            "classify",
            grpc.StatusCode.INVALID_ARGUMENT,
            "Duplicate evaluation of signature: classify",
        ),
    ],
)
def test_incompatible_tasks_are_refused(
    spec: dict[str, str], method: str, code: grpc.StatusCode, message: str, prediction: Any
) -> None:
    multi = examples(inference_pb2.MultiInferenceRequest(), TEXTS)
    for changed, name in (({"signature_name": "classify"}, "classify"), (spec, method)):
        task = multi.tasks.add(method_name=f"tensorflow/serving/{name}")
        task.model_spec.MergeFrom(model_pb2.ModelSpec(**({"name": "classifier"} | changed)))
    with pytest.raises(grpc.RpcError) as refused:
        prediction.MultiInference(multi, timeout=60)
    assert (refused.value.code(), message in refused.value.details()) == (code, True), refused.value


def test_too_many_examples_are_refused(prediction: Any) -> None:
    classify = examples(classification_pb2.ClassificationRequest(), ["a"] * 129)
    classify.model_spec.name, classify.model_spec.signature_name = "classifier", "classify"
    with pytest.raises(grpc.RpcError, match="at most 128 rows. Received: 129"):
        prediction.Classify(classify, timeout=60)


def test_values_beyond_the_shape_are_ignored(prediction: Any) -> None:
    proto = tf.make_tensor_proto(np.array(["cat", "a", "b"], object))
    proto.tensor_shape.dim[0].size = 1
    answer = prediction.Predict(predict_request(text=proto), timeout=60)
    assert answer.outputs == prediction.Predict(predict_request(text=["cat"]), timeout=60).outputs


def test_metadata_and_status(prediction: Any, models: Any, rest: TestClient) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "classifier"
    response = prediction.GetModelMetadata(request, timeout=60)
    definitions = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(definitions)
    described = rest.get("/v1/models/classifier/metadata").json()["metadata"]["signature_def"]["signature_def"]
    assert set(definitions.signature_def) == set(described)
    asked = get_model_status_pb2.GetModelStatusRequest()
    asked.model_spec.name = "classifier"
    [state] = models.GetModelStatus(asked, timeout=60).model_version_status
    assert (state.version, state.state) == (1, get_model_status_pb2.ModelVersionStatus.AVAILABLE)


def _tensor(**fields: Any) -> Any:
    proto = tf.make_tensor_proto(np.zeros((1, 3), np.int32))
    proto.ClearField("tensor_content")
    for name, value in fields.items():
        if name == "sizes":
            for dim, size in zip(proto.tensor_shape.dim, value, strict=True):
                dim.size = size
        elif name == "unknown_rank":
            proto.tensor_shape.unknown_rank = value
        else:
            setattr(proto, name, value)
    return proto


def _short(array: np.ndarray) -> Any:
    proto = tf.make_tensor_proto(array)
    del proto.string_val[1:]
    return proto


def _ids(**changed: Any) -> Callable[[], predict_pb2.PredictRequest]:
    def request() -> predict_pb2.PredictRequest:
        plain = {name: np.array(value, np.int32) for name, value in IDS.items()}
        return predict_request(signature="ids", **(plain | changed))

    return request


INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
REFUSED: dict[str, tuple[Callable[[], Any], grpc.StatusCode, str]] = {
    "no model": (predict_pb2.PredictRequest, INVALID, "Missing ModelSpec"),
    "no model name": (lambda: predict_request("", text=["a"]), INVALID, "ModelSpec has no name specified."),
    "other model": (lambda: predict_request("x", text=["a"]), NOT_FOUND, "Servable not found for request: Latest(x)"),
    "other signature": (
        lambda: predict_request(signature="x", text=["a"]),
        grpc.StatusCode.FAILED_PRECONDITION,
        'Serving signature key "x" not found.',
    ),
    "no input": (predict_request, INVALID, "input size does not match signature: 0!=1 len({}) != len({text})"),
    "other input": (lambda: predict_request(txt=["a"]), INVALID, "Sent extra: {txt}. Missing but required: {text}."),
    "other type": (lambda: predict_request(text=[1]), INVALID, "input text: expects string but int32 is provided"),
    "scalar": (lambda: predict_request(text="a"), INVALID, "Shape of tensor text [] is not compatible"),
    "no type": (_ids(token_ids=_tensor(dtype=0)), INVALID, "tensor parsing error: token_ids: no type has the number 0"),
    "unknown rank": (_ids(token_ids=_tensor(unknown_rank=True)), INVALID, "token_ids: its rank is unknown"),
    "negative size": (_ids(token_ids=_tensor(sizes=[-1, 3])), INVALID, "its shape has negative sizes: [-1, 3]"),
    "a bomb": (_ids(token_ids=_tensor(sizes=[2**31, 2**31])), INVALID, "it must have at most 8 dimensions and"),
    "nothing of a bomb": (_ids(token_ids=_tensor(sizes=[0, 2**62])), INVALID, "it must have at most 8 dimensions and"),
    "half a value": (_ids(token_ids=_tensor(tensor_content=b"abc")), INVALID, "tensor_content has 3 bytes, of 4 each"),
    "negative id": (_ids(token_ids=np.array([[2, -5, 3]], np.int32)), INVALID, "token_ids must lie in 0..25"),
    "too much left out": (
        lambda: predict_request(text=_short(np.array([["a"] * 2**18], object))),
        INVALID,
        "text: at most 131072 values may be left out. Received: 1 values of the shape [1, 262144]",
    ),
    "rows of a bomb": (_ids(token_ids=_tensor(sizes=[2**20, 3])), INVALID, "at most 128 rows. Received: 1048576"),
    "too many rows": (lambda: predict_request(text=["a"] * 129), INVALID, "at most 128 rows. Received: 129"),
    "too large": (lambda: predict_request(text=["a" * 20001]), grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_requests_are_explained(case: str, prediction: Any) -> None:
    make, code, message = REFUSED[case]
    request = make()
    with nothing_left_in_cycles(), pytest.raises(grpc.RpcError) as refused:
        prediction.Predict(request, timeout=60)
    assert refused.value.code() == code, refused.value
    assert message in refused.value.details()
    assert prediction.Predict(predict_request(text=["still there"]), timeout=60).outputs


@pytest.mark.parametrize(
    ("output_filter", "message"),
    [(["x"], "output tensor alias not found in signature: x"), (["label"] * 2, "duplicate output tensor alias: label")],
)
def test_empty_output_filter_is_refused(output_filter: list[str], message: str, prediction: Any) -> None:
    request = predict_request(text=TEXTS)
    request.output_filter.extend(output_filter)
    with pytest.raises(grpc.RpcError, match=message):
        prediction.Predict(request, timeout=60)


def test_missing_values_repeat_the_last_one(prediction: Any) -> None:
    proto = _short(np.array(["cat", "cat", "cat"], object))
    whole = prediction.Predict(predict_request(text=["cat"] * 3), timeout=60)
    short = prediction.Predict(predict_request(text=proto), timeout=60)
    assert short.outputs == whole.outputs


def test_unparsable_message_is_refused(channel: grpc.Channel) -> None:
    raw = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    with pytest.raises(grpc.RpcError) as refused:
        raw(b"\xff\xff\xff", timeout=60)
    assert refused.value.code() == grpc.StatusCode.INTERNAL
    assert refused.value.details() == "Exception deserializing request!"


def test_unparsable_message_is_released(channel: grpc.Channel) -> None:
    raw = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    before = _calls()
    for _ in range(20):
        with pytest.raises(grpc.RpcError):
            raw(b"\xff\xff\xff", timeout=60)
    # The last calls may still be ending.
    assert _calls() - before < 10


def _calls() -> int:
    """Returns the number of calls that grpcio's servers hold in this process."""
    gc.collect()
    return sum(type(found).__name__ == "_RPCState" for found in gc.get_objects())


def test_a_deadline_is_kept(prediction: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        prediction.Predict(predict_request(text=["the cat"] * 64), timeout=1e-4)
    assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_clients_cannot_change_the_models(models: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        models.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest(), timeout=60)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "--allow_reload_config" in refused.value.details()
