"""The descriptor file for clients without stubs, and the example requests that use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.support.paths import REPOSITORY

EXAMPLES = REPOSITORY / "saved_models" / "examples" / "grpc"
PREDICTION, MODEL = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
METHODS = {
    "predict": (PREDICTION, "Predict", predict_pb2.PredictRequest),
    "classify": (PREDICTION, "Classify", classification_pb2.ClassificationRequest),
    "regress": (PREDICTION, "Regress", regression_pb2.RegressionRequest),
    "get_model_metadata": (PREDICTION, "GetModelMetadata", get_model_metadata_pb2.GetModelMetadataRequest),
    "get_model_status": (MODEL, "GetModelStatus", get_model_status_pb2.GetModelStatusRequest),
}
# Kind of model for each request that returns predictions.
KINDS = {
    "predict": "classifier",
    "predict_stable": "classifier",
    "predict_ids": "classifier",
    "predict_layers": "pretrainer",
    "classify": "classifier",
    "regress": "regression",
}


def method_of(path: Path) -> tuple[str, str, Any]:
    """Returns service, method and request of an example, whose file name begins with the method."""
    return METHODS[path.stem if path.stem in METHODS else path.stem.split("_")[0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_example_requests_run_on_the_exports(name: str, exported: Callable[[str], Path]) -> None:
    path = EXAMPLES / f"{name}.json"
    request = json_format.Parse(path.read_text(encoding="utf-8"), method_of(path)[2]())
    signatures = tf.saved_model.load(str(exported(KINDS[name]))).signatures
    signature = signatures[request.model_spec.signature_name or "serving_default"]
    if isinstance(request, predict_pb2.PredictRequest):
        inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
        assert set(request.output_filter) <= set(signature.structured_outputs)
        rows = {value.tensor_shape.dim[0].size for value in request.inputs.values()}
    else:
        examples = request.input.example_list.examples
        inputs = {"inputs": tf.constant([example.SerializeToString() for example in examples])}
        rows = {len(examples)}
    assert {int(output.shape[0]) for output in signature(**inputs).values()} == rows
