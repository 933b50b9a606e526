"""The descriptor file for clients without stubs, and the example requests that use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
    regression_pb2,
)

from bert_tf.export.descriptors import main
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
FILES = sorted(EXAMPLES.iterdir())


def method_of(path: Path) -> tuple[str, str, Any]:
    """Returns service, method and request of an example, whose file name begins with the method."""
    return METHODS[path.stem if path.stem in METHODS else path.stem.split("_")[0]]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pool.DescriptorPool:
    """The descriptors of a client that has only the file."""
    path = tmp_path_factory.mktemp("descriptors") / "serving.protoset"
    assert main([str(path)]) == 0
    known = descriptor_pool.DescriptorPool()
    # Each file must follow its imports.
    for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file:
        known.AddSerializedFile(file.SerializeToString())
        known.FindFileByName(file.name)
    return known


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_descriptor_file_suffices_to_build_requests_from_json(path: Path, pool: descriptor_pool.DescriptorPool) -> None:
    service, method, request = method_of(path)
    found = pool.FindServiceByName(service).FindMethodByName(method).input_type
    without_stubs = message_factory.GetMessageClass(found)()
    json_format.Parse(path.read_text(encoding="utf-8"), without_stubs, descriptor_pool=pool)
    with_stubs = json_format.Parse(path.read_text(encoding="utf-8"), request())
    assert request.FromString(without_stubs.SerializeToString()) == with_stubs
    assert with_stubs.model_spec.name


def test_every_method_has_an_example_and_responses_can_be_parsed(pool: descriptor_pool.DescriptorPool) -> None:
    assert {method_of(path)[1] for path in FILES} == {method for _, method, _ in METHODS.values()}
    # The description of the response does not name the message in an Any.
    assert pool.FindMessageTypeByName("tensorflow.serving.SignatureDefMap")
    for service in (PREDICTION, MODEL):
        for method in pool.FindServiceByName(service).methods:
            assert message_factory.GetMessageClass(method.output_type)


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_invalid_arguments_print_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "FILE.protoset" in capsys.readouterr().err
