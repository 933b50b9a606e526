"""Requests of `bert_tf.export.conformance.suite`, built as raw JSON and messages without the package's client."""

from __future__ import annotations

import base64
import functools
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_tf.export.metadata import CLASSIFY, CLASSIFY_INPUTS
from bert_tf.export.verify.check import Tensors

# Name of a request, and a function that sends it and returns a description of the response's fault, empty if absent.
Check = tuple[str, Callable[[], str]]

TIMEOUT_SECONDS = 60
_NOT_THERE = 2**31
_SIGNATURE_DEF = "signature_def"


class RestServer:
    """A model version that is served over REST at http://HOST:PORT."""

    def __init__(self, address: str, name: str, version: int) -> None:
        self.address, self.name, self.version = address, name, version
        self.url = f"{address}/v1/models/{name}/versions/{version}"

    def send(self, path: str, body: bytes | None) -> tuple[int, Any]:
        """Sends a POST request if there is a body, else GET; returns the status and the parsed JSON."""
        try:
            with urllib.request.urlopen(urllib.request.Request(path, body), timeout=TIMEOUT_SECONDS) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def columns(self, signature: str, inputs: Tensors) -> Tensors:
        """Predicts from inputs in column format."""
        values = {name: _json(array) for name, array in inputs.items()}
        answer = self._post("predict", {"inputs": values, "signature_name": signature})["outputs"]
        return _arrays(answer, self._outputs(signature))

    def rows(self, signature: str, inputs: Tensors) -> Tensors:
        """Predicts from inputs in row format."""
        rows = [dict(zip(inputs, row, strict=True)) for row in zip(*map(_json, inputs.values()), strict=True)]
        answer = self._post("predict", {"instances": rows, "signature_name": signature})["predictions"]
        names = self._outputs(signature)
        if len(names) == 1:
            return _arrays(answer, names)
        return _arrays({name: [row[name] for row in answer] for name in answer[0]}, names)

    def examples(self, signature: str, inputs: Tensors) -> Tensors:
        """Runs Classify or Regress."""
        examples = [_features(tf.train.Example.FromString(row)) for row in inputs[CLASSIFY_INPUTS]]
        verb = "classify" if signature == CLASSIFY else "regress"
        results = self._post(verb, {"examples": examples, "signature_name": signature})["results"]
        if verb == "regress":
            return {"outputs": np.array(results, np.float32)}
        classes = np.array([[label.encode() for label, _ in row] for row in results], object)
        return {"classes": classes, "scores": np.array([[score for _, score in row] for row in results], np.float32)}

    def status(self) -> str:
        """Returns a description of a wrong version status; empty if it is right."""
        status, answer = self.send(self.url, None)
        expected = [{"version": str(self.version), "state": "AVAILABLE"}]
        states = [{key: state[key] for key in ("version", "state")} for state in answer["model_version_status"]]
        return "" if (status, states) == (200, expected) else f"{status} {answer}"

    def signatures(self) -> dict[str, Any]:
        """Returns the signatures of the version by name."""
        return self.send(f"{self.url}/metadata", None)[1]["metadata"]["signature_def"]["signature_def"]

    def bad_requests(self) -> Iterator[Check]:
        """Yields requests that a server must reject."""
        for name, path, body, status, message in [*_no_model_cases(self), *_bad_body_cases(self.url)]:
            yield name, functools.partial(self._refused, path, body, status, message)

    def _refused(self, path: str, body: bytes | None, status: int, message: str) -> str:
        received, answer = self.send(path, body)
        if received == status and set(answer) == {"error"} and message in answer["error"]:
            return ""
        return f"{received} {answer}; expected {status} {message!r}"

    def _outputs(self, signature: str) -> list[str]:
        return sorted(self.signatures()[signature]["outputs"])

    def _post(self, verb: str, body: Any) -> Any:
        status, answer = self.send(f"{self.url}:{verb}", json.dumps(body).encode())
        if status != 200:
            raise RuntimeError(f"status {status}: {answer}")
        return answer


RestCase = tuple[str, str, bytes | None, int, str]


def _no_model_cases(server: RestServer) -> list[RestCase]:
    """Returns requests to models, versions and labels that do not exist."""
    models, model = f"{server.address}/v1/models", f"{server.address}/v1/models/{server.name}"
    body = b'{"inputs": ["a"]}'
    latest = f"Servable not found for request: Latest({_NOT_THERE})"
    specific = f"Servable not found for request: Specific({server.name}, {_NOT_THERE})"
    version = f"Could not find version {_NOT_THERE} of model {server.name}"
    return [
        ("unknown model", f"{models}/{_NOT_THERE}:predict", body, 404, latest),
        ("unknown version", f"{model}/versions/{_NOT_THERE}:predict", body, 404, specific),
        ("unknown label", f"{model}/labels/none:predict", body, 400, "Unrecognized servable version label: none"),
        ("status of an unknown model", f"{models}/{_NOT_THERE}", None, 404, "Could not find any versions of model"),
        ("status of an unknown version", f"{model}/versions/{_NOT_THERE}", None, 404, version),
    ]


def _bad_body_cases(url: str) -> list[RestCase]:
    """Returns request bodies that are not valid."""
    path, classify = f"{url}:predict", f"{url}:classify"
    none = 'Serving signature name: "none" not found in signature def'
    return [
        ("no JSON", path, b"{", 400, "JSON Parse error"),
        ("a list", path, b"[1]", 400, ""),
        ("neither rows nor columns", path, b"{}", 400, "Missing 'inputs' or 'instances' key"),
        ("both", path, b'{"inputs": ["a"], "instances": ["a"]}', 400, ""),
        ("no row", path, b'{"instances": []}', 400, ""),
        ("rows that are no list", path, b'{"instances": "a"}', 400, ""),
        ("signature that is no name", path, b'{"instances": ["a"], "signature_name": 3}', 400, ""),
        ("unknown signature", path, b'{"instances": ["a"], "signature_name": "none"}', 400, none),
        ("other type", path, b'{"inputs": [true]}', 400, ""),
        ("unknown input", path, b'{"instances": [{"none": "a"}]}', 400, ""),
        ("no examples", classify, b"{}", 400, ""),
        ("no example", classify, b'{"examples": []}', 400, ""),
        ("unknown verb", f"{url}:guess", b"{}", 400, "Malformed request: POST"),
    ]


class GrpcServer:
    """A model version that is served over gRPC at HOST:PORT."""

    def __init__(self, address: str, name: str, version: int) -> None:
        channel = grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)])
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(channel)
        self.name, self.version = name, version

    def about(self, request: Any, signature: str = "") -> Any:
        """Sets the model's name, version and signature in a request, and returns it."""
        request.model_spec.name, request.model_spec.signature_name = self.name, signature
        request.model_spec.version.value = self.version
        return request

    def predict(self, signature: str, inputs: Tensors) -> Tensors:
        """Runs Predict."""
        request = self.about(predict_pb2.PredictRequest(), signature)
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
        outputs = self.prediction.Predict(request, timeout=TIMEOUT_SECONDS).outputs
        return {name: tf.make_ndarray(tensor) for name, tensor in outputs.items()}

    def examples(self, signature: str, inputs: Tensors) -> Tensors:
        """Runs Classify or Regress."""
        kind = classification_pb2.ClassificationRequest if signature == CLASSIFY else regression_pb2.RegressionRequest
        request = self.about(kind(), signature)
        request.input.example_list.examples.extend(map(tf.train.Example.FromString, inputs[CLASSIFY_INPUTS]))
        if signature != CLASSIFY:
            numbers = self.prediction.Regress(request, timeout=TIMEOUT_SECONDS).result.regressions
            return {"outputs": np.array([one.value for one in numbers], np.float32)}
        rows = self.prediction.Classify(request, timeout=TIMEOUT_SECONDS).result.classifications
        return {
            "classes": np.array([[one.label.encode() for one in row.classes] for row in rows], object),
            "scores": np.array([[one.score for one in row.classes] for row in rows], np.float32),
        }

    def status(self) -> str:
        """Returns a description of a wrong version status; empty if it is right."""
        request = self.about(get_model_status_pb2.GetModelStatusRequest())
        [state] = self.models.GetModelStatus(request, timeout=TIMEOUT_SECONDS).model_version_status
        available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
        return "" if (state.version, state.state) == (self.version, available) else str(state)

    def signatures(self) -> Mapping[str, Any]:
        """Returns the signatures of the version by name."""
        request = self.about(get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=[_SIGNATURE_DEF]))
        definitions = get_model_metadata_pb2.SignatureDefMap()
        response = self.prediction.GetModelMetadata(request, timeout=TIMEOUT_SECONDS)
        response.metadata[_SIGNATURE_DEF].Unpack(definitions)
        return definitions.signature_def

    def bad_requests(self) -> Iterator[Check]:
        """Yields requests that a server must reject."""
        predict, classify = self.prediction.Predict, self.prediction.Classify
        invalid, wrong = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
        missing = grpc.StatusCode.NOT_FOUND
        nameless = predict_pb2.PredictRequest(model_spec=model_pb2.ModelSpec(signature_name="serving_default"))
        unknown = self.about(predict_pb2.PredictRequest())
        unknown.model_spec.name = str(_NOT_THERE)
        version = self.about(predict_pb2.PredictRequest())
        version.model_spec.version.value = _NOT_THERE
        label = self.about(predict_pb2.PredictRequest())
        label.model_spec.version_label = "none"
        other = self.about(predict_pb2.PredictRequest())
        other.inputs["none"].CopyFrom(tf.make_tensor_proto(["a"]))
        signature = self.about(predict_pb2.PredictRequest(), "none")
        no_example = self.about(classification_pb2.ClassificationRequest(), "none")
        field = self.about(get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["none"]))
        metadata = self.prediction.GetModelMetadata
        cases: list[tuple[str, Callable[..., Any], Any, grpc.StatusCode, str]] = [
            ("no model", predict, predict_pb2.PredictRequest(), invalid, "Missing ModelSpec"),
            ("no name", predict, nameless, invalid, "ModelSpec has no name specified."),
            ("unknown model", predict, unknown, missing, "Servable not found for request: "),
            ("unknown version", predict, version, missing, f"Specific({self.name}, {_NOT_THERE})"),
            ("unknown label", predict, label, invalid, "Unrecognized servable version label: none"),
            ("unknown signature", predict, signature, wrong, 'Serving signature key "none" not found.'),
            ("unknown input", predict, other, invalid, "input size does not match signature: 1!="),
            ("unknown field", metadata, field, invalid, "Metadata field none is not supported"),
            ("no example", classify, no_example, invalid, "No signature was found with the name: none"),
        ]
        for name, method, request, code, message in cases:
            yield name, functools.partial(_refused_grpc, method, request, code, message)


def _refused_grpc(method: Callable[..., Any], request: Any, code: grpc.StatusCode, message: str) -> str:
    try:
        method(request, timeout=TIMEOUT_SECONDS)
    except grpc.RpcError as error:
        right = error.code() == code and message in (error.details() or "")
        return "" if right else f"{error.code().name} {error.details()!r}; expected {code.name} {message!r}"
    return f"no error; expected {code.name} {message!r}"


def _json(array: np.ndarray) -> Any:
    """Returns an array as nested lists, bytes as base64."""
    if array.dtype != object:
        return array.tolist()
    encoded = np.empty(array.size, object)
    encoded[:] = [{"b64": base64.b64encode(value).decode()} for value in array.reshape(-1)]
    return encoded.reshape(array.shape).tolist()


def _arrays(answer: Any, names: list[str]) -> Tensors:
    """Returns the columns of a response; a single output comes without its name."""
    columns = answer if len(names) > 1 else {names[0]: answer}
    arrays = {name: np.array(values) for name, values in columns.items()}
    return {
        name: np.array([value.encode() for value in array.reshape(-1)], object).reshape(array.shape)
        if array.dtype.kind == "U"
        else array
        for name, array in arrays.items()
    }


def _features(example: tf.train.Example) -> dict[str, Any]:
    """Returns an example's features in the JSON form of classify and regress."""
    return {
        name: [{"b64": base64.b64encode(value).decode()} for value in feature.bytes_list.value]
        for name, feature in example.features.feature.items()
    }
