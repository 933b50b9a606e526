"""Classify and Regress: lists of tf.Examples in, classes with scores or numbers out.

Rules and messages are those of TF Serving (servables/tensorflow/classifier.cc, regressor.cc and util.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, inference_pb2, input_pb2, regression_pb2

from bert_tf.export.metadata import CLASSIFY, CLASSIFY_INPUTS, METHODS, REGRESS
from bert_tf.serving.batching import Arrays
from bert_tf.serving.errors import ServingError
from bert_tf.serving.tensors import check_rows

CLASSES, SCORES, OUTPUTS = "classes", "scores", "outputs"


def serialized_examples(examples: input_pb2.Input) -> Arrays:
    """Returns the examples of a request as the one input that signatures of its kind have.

    A context's features are added to those of every example, which keep their own where both have one.

    Raises:
        ServingError: where there is none.
    """
    kind = examples.WhichOneof("kind")
    listed = getattr(examples, kind).examples if kind else []
    if not listed:
        raise ServingError("Input is empty.")
    check_rows(len(listed))
    # The bytes of two messages, one after the other, are those of both merged.
    context = examples.example_list_with_context.context.SerializeToString() if "context" in kind else b""
    serialized = np.empty(len(listed), object)
    serialized[:] = [context + example.SerializeToString() for example in listed]
    return {CLASSIFY_INPUTS: serialized}


def check_signature(definition: meta_graph_pb2.SignatureDef, method: ExampleMethod) -> None:
    """Refuses a signature that does not answer requests of a method. Raises ServingError."""
    if len(definition.inputs) != 1:
        raise ServingError("Expected one input Tensor.")
    if not 1 <= len(definition.outputs) <= len(method.outputs):
        several = f"one or two output Tensors, found {len(definition.outputs)}"
        raise ServingError(f"Expected {'one output Tensor.' if len(method.outputs) == 1 else several}")
    if CLASSIFY_INPUTS not in definition.inputs:
        raise ServingError(f"No {method.kind} inputs found in SignatureDef: {_named(definition)}")
    if not method.outputs & set(definition.outputs):
        raise ServingError(f"No {method.kind} outputs found in SignatureDef: {_named(definition)}")


def classification_result(outputs: Arrays) -> classification_pb2.ClassificationResult:
    """Returns classes [B, C] and scores [B, C] as a message; either may be missing."""
    result = classification_pb2.ClassificationResult()
    classes, scores = outputs.get(CLASSES), outputs.get(SCORES)
    rows, columns = next(iter(outputs.values())).shape
    for row in range(rows):
        answered = result.classifications.add().classes
        for column in range(columns):
            added = answered.add()
            if classes is not None:
                added.label = classes[row, column].decode("utf-8", "replace")
            if scores is not None:
                added.score = float(scores[row, column])
    return result


def regression_result(outputs: Arrays) -> regression_pb2.RegressionResult:
    """Returns numbers [B] or [B, 1] as a message."""
    result = regression_pb2.RegressionResult()
    for value in outputs[OUTPUTS].reshape(-1):
        result.regressions.add(value=float(value))
    return result


@dataclass(frozen=True)
class ExampleMethod:
    """What one of the methods on examples asks of a signature, and makes of its answer.

    Args:
        kind: as messages call it.
        outputs: names of those a signature may have, at least one of them.
        result: makes a message of them.
    """

    kind: str
    outputs: Set[str]
    result: Callable[[Arrays], Any]


# By the names that requests and signatures call them by.
EXAMPLE_METHODS = {
    METHODS[CLASSIFY]: ExampleMethod("classification", {CLASSES, SCORES}, classification_result),
    METHODS[REGRESS]: ExampleMethod("regression", {OUTPUTS}, regression_result),
}


def checked_tasks(
    tasks: Sequence[inference_pb2.InferenceTask], signatures: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, ExampleMethod]:
    """Refuses tasks that do not go together or that a model has no signature for (multi_inference.cc).

    Args:
        tasks: of one request.
        signatures: of the model.

    Returns:
        The method of each task by its signature, in order.

    Raises:
        ServingError: for the first task that is wrong.
    """
    found: dict[str, ExampleMethod] = {}
    for task in tasks:
        spec = task.model_spec
        name = spec.signature_name or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if not spec.name:
            raise ServingError("Found ModelSpec with an empty model name.")
        if spec.name != tasks[0].model_spec.name:
            raise ServingError("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        if name in found:
            raise ServingError(f"Duplicate evaluation of signature: {name}")
        if name not in signatures:
            raise ServingError(f"Requested signature not found in model graph: {name}")
        if task.method_name not in EXAMPLE_METHODS:
            message = f"Unsupported signature method_name: {task.method_name}"
            raise ServingError(message, grpc.StatusCode.UNIMPLEMENTED)
        found[name] = EXAMPLE_METHODS[task.method_name]
        check_signature(signatures[name], found[name])
    return found


def _named(definition: meta_graph_pb2.SignatureDef) -> str:
    return f"inputs {', '.join(sorted(definition.inputs))}, outputs {', '.join(sorted(definition.outputs))}"
