"""Several tasks on the same examples are run by one version."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import inference_pb2, input_pb2, prediction_service_pb2_grpc

from bert_tf.export.metadata import METHODS
from bert_tf.serving.grpc.server import GrpcOptions, GrpcServer
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.versions import AVAILABLE, ServedModel
from bert_tf.serving.server import ServerOptions, loaded_service
from bert_tf.serving.service import Service, Target

EXAMPLES = input_pb2.Input(example_list=input_pb2.ExampleList(examples=[tf.train.Example()] * 2))


def save(root: Path, version: int) -> None:
    """Writes a model whose predictions are its version number."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"classes": tf.fill([tf.size(inputs), 1], str(version))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"outputs": tf.fill([tf.size(inputs)], float(version))}

    signatures = {"classify": classify, "regress": regress}
    tf.saved_model.save(tf.Module(), str(root / str(version)), signatures=signatures)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Service, Path]]:
    save(tmp_path, 1)
    with loaded_service([ServedModel("both", tmp_path)], ServerOptions(poll_seconds=0, warm_up=False)) as service:
        yield service, tmp_path


def tasks(*signatures: str) -> list[Any]:
    found = [inference_pb2.InferenceTask(method_name=METHODS[name]) for name in signatures]
    for task, name in zip(found, signatures, strict=True):
        task.model_spec.name, task.model_spec.signature_name = "both", name
    return found


def test_results_keep_the_order_of_tasks(both: tuple[Service, Path]) -> None:
    server = GrpcServer(both[0], GrpcOptions())
    port = server.add_port("127.0.0.1:0")
    server.start()
    request = inference_pb2.MultiInferenceRequest(tasks=tasks("regress", "classify"), input=EXAMPLES)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        numbers, classes = stub.MultiInference(request, timeout=60).results
    server.stop(None)
    assert [found.value for found in numbers.regression_result.regressions] == [1.0, 1.0]
    assert [row.classes[0].label for row in classes.classification_result.classifications] == ["1", "1"]
    for result, name in ((numbers, "regress"), (classes, "classify")):
        spec = result.model_spec
        assert (spec.name, spec.version.value, spec.signature_name) == ("both", 1, name)


def test_request_is_answered_by_one_version(both: tuple[Service, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    service, root = both
    answer = LoadedVersion.answer
    swap = threading.Thread(target=service.manager.poll)

    def swapped(version: LoadedVersion, name: str, *rest: Any) -> Any:
        if name == "classify":
            save(root, 2)
            # The manager waits for this request before it unloads the first version.
            swap.start()
            while not any((one.version, one.state) == (2, AVAILABLE) for one in service.manager.status("both")):
                pass
        return answer(version, name, *rest)

    monkeypatch.setattr(LoadedVersion, "answer", swapped)
    version, results = service.infer(Target("both"), tasks("classify", "regress"), EXAMPLES)
    swap.join()
    assert (version, results[1][1].regressions[0].value) == (1, 1.0)
    version, results = service.infer(Target("both"), tasks("regress"), EXAMPLES)
    assert (version, results[0][1].regressions[0].value) == (2, 2.0)
