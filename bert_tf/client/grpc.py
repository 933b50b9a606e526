"""gRPC client. Converts rows of plain Python values to tensors and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import grpc
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import meta_graph_pb2
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

from bert_tf.client.base import URL_RULE, ClientOptions, PredictError, retry
from bert_tf.export.json_values import float32_digits, message_values, nested_lists

_SIGNATURE_DEF = "signature_def"
_URL = re.compile(
    r"grpc(?P<secure>s)?://(?P<server>[^/]+)/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
)


class GrpcClient:
    """Client of a model at `grpc://HOST:PORT/NAME` or `grpcs://HOST:PORT/NAME`. Raises ValueError for another URL."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError(f"{URL_RULE}. Received: {url}")
        self._server = match["server"]
        self._model = model_pb2.ModelSpec(name=unquote(match["name"]))
        if match["label"]:
            self._model.version_label = unquote(match["label"])
        elif match["version"]:
            self._model.version.value = int(match["version"])
        # The server limits the size of responses.
        limits = [("grpc.max_receive_message_length", -1)]
        if match["secure"]:
            files = (options.certificate, options.client_key, options.client_certificate)
            trusted, key, certificate = (Path(file).read_bytes() if file is not None else None for file in files)
            credentials = grpc.ssl_channel_credentials(trusted, key, certificate)
            channel = grpc.secure_channel(self._server, credentials, limits)
        else:
            channel = grpc.insecure_channel(self._server, limits)
        self._metadata = [("authorization", f"Bearer {options.token}")] if options.token is not None else []
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._models = model_service_pb2_grpc.ModelServiceStub(channel)
        self._options = options
        self._signatures: dict[str, meta_graph_pb2.SignatureDef] | None = None

    def predict(self, instances: Sequence[Any], signature_name: str | None = None) -> list[Any]:
        """Requests predictions; see `ModelClient.predict`."""
        request = predict_pb2.PredictRequest(model_spec=self._spec(signature_name))
        for name, values in self._columns(instances, signature_name).items():
            request.inputs[name].CopyFrom(values)
        response = self._call(self._prediction.Predict, request)
        columns = {name: nested_lists(tf.make_ndarray(tensor)) for name, tensor in sorted(response.outputs.items())}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return rows if len(columns) > 1 else [next(iter(row.values())) for row in rows]

    def classify(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[list[Any]]:
        """Requests classifications; see `ModelClient.classify`."""
        request = classification_pb2.ClassificationRequest(model_spec=self._spec(signature_name))
        request.input.example_list.examples.extend(map(_example, examples))
        response = self._call(self._prediction.Classify, request)
        return [
            [[one.label, float32_digits(one.score)] for one in row.classes] for row in response.result.classifications
        ]

    def regress(self, examples: Sequence[Mapping[str, Any]], signature_name: str | None = None) -> list[float]:
        """Requests regression values; see `ModelClient.regress`."""
        request = regression_pb2.RegressionRequest(model_spec=self._spec(signature_name))
        request.input.example_list.examples.extend(map(_example, examples))
        return [float32_digits(one.value) for one in self._call(self._prediction.Regress, request).result.regressions]

    def status(self) -> list[dict[str, Any]]:
        """Returns the states of all versions; see `ModelClient.status`."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=self._spec(None))
        state_name = get_model_status_pb2.ModelVersionStatus.State.Name
        return [
            {"version": item.version, "state": state_name(item.state), "error": item.status.error_message}
            for item in self._call(self._models.GetModelStatus, request).model_version_status
        ]

    def metadata(self) -> dict[str, Any]:
        """Returns the model's signatures; see `ModelClient.metadata`."""
        return {name: message_values(definition) for name, definition in self._definitions().items()}

    def _columns(self, instances: Sequence[Any], signature_name: str | None) -> dict[str, Any]:
        """Converts rows to one tensor per input, with the dtypes of the signature; infers those of unknown inputs."""
        name = signature_name or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if self._signatures is None:
            self._signatures = self._definitions()
        inputs = self._signatures[name].inputs if name in self._signatures else {}
        rows = [
            row if isinstance(row, Mapping) else dict.fromkeys(list(inputs)[:1] or ["inputs"], row) for row in instances
        ]
        names = sorted({key for row in rows for key in row})
        try:
            return {
                key: tf.make_tensor_proto([row[key] for row in rows], inputs[key].dtype if key in inputs else None)
                for key in names
            }
        except (KeyError, TypeError, ValueError) as error:
            raise PredictError(
                f"the rows do not match the inputs of signature {name}: {error}", code="INVALID_ARGUMENT"
            ) from error

    def _definitions(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self._spec(None), metadata_field=[_SIGNATURE_DEF]
        )
        response = self._call(self._prediction.GetModelMetadata, request)
        definitions = get_model_metadata_pb2.SignatureDefMap()
        response.metadata[_SIGNATURE_DEF].Unpack(definitions)
        return dict(definitions.signature_def)

    def _spec(self, signature_name: str | None) -> model_pb2.ModelSpec:
        spec = model_pb2.ModelSpec(signature_name=signature_name or "")
        spec.MergeFrom(self._model)
        return spec

    def _call(self, method: Callable[..., Any], request: Message) -> Any:
        return retry(lambda: self._once(method, request), self._options.retries)

    def _once(self, method: Callable[..., Any], request: Message) -> Any:
        try:
            return method(request, timeout=self._options.timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            code, details = error.code().name, error.details() or ""
            # Message of the gRPC client library if there is no connection.
            if code == "UNAVAILABLE" and "failed to connect" in details:
                raise ConnectionError(f"cannot connect to a model server at {self._server}: {details}") from error
            raise PredictError(details, code=code) from error


def _example(features: Mapping[str, Any]) -> tf.train.Example:
    """Builds a tf.Example; each feature is a string, integer or float, or a list of them."""
    example = tf.train.Example()
    for name, content in features.items():
        values = content if isinstance(content, list | tuple) else [content]
        if all(isinstance(value, str | bytes) for value in values):
            encoded = [value.encode() if isinstance(value, str) else value for value in values]
            example.features.feature[name].bytes_list.value.extend(encoded)
        elif all(isinstance(value, int) for value in values):
            example.features.feature[name].int64_list.value.extend(values)
        else:
            example.features.feature[name].float_list.value.extend(values)
    return example
