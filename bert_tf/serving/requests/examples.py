"""Requests and results of Classify and Regress, which take tf.Examples and return classes with scores, or numbers.

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
from bert_tf.serving.errors import ServingError
from bert_tf.serving.requests.tensors import Arrays, check_rows, check_text_bytes

CLASSES, SCORES, OUTPUTS = "classes", "scores", "outputs"


def serialized_examples(examples: input_pb2.Input, max_text_bytes: int) -> Arrays:
    """Returns the examples of a request as the single input of their signatures.

    The features of a context are added to each example; the example's own features have priority. Raises ServingError
    for no examples, and for more bytes than the texts of a request may have.
    """
    kind = examples.WhichOneof("kind")
    example_list = getattr(examples, kind).examples if kind else []
    if not example_list:
        raise ServingError("Input is empty.")
    check_rows(len(example_list))
    # Concatenating the bytes of two messages merges them.
    context = examples.example_list_with_context.context.SerializeToString() if "context" in kind else b""
    # Before each example takes a copy of the context.
    check_text_bytes(sum(len(context) + example.ByteSize() for example in example_list), max_text_bytes)
    serialized = np.empty(len(example_list), object)
    serialized[:] = [context + example.SerializeToString() for example in example_list]
    return {CLASSIFY_INPUTS: serialized}


def check_signature(definition: meta_graph_pb2.SignatureDef, method: ExampleMethod) -> None:
    """Raises ServingError for a signature that does not support a method."""
    if len(definition.inputs) != 1:
        raise ServingError("Expected one input Tensor.")
    if not 1 <= len(definition.outputs) <= len(method.outputs):
        several = f"one or two output Tensors, found {len(definition.outputs)}"
        raise ServingError(f"Expected {'one output Tensor.' if len(method.outputs) == 1 else several}")
    if CLASSIFY_INPUTS not in definition.inputs:
        raise ServingError(f"No {method.kind} inputs found in SignatureDef: {_tensor_names(definition)}")
    if not method.outputs & set(definition.outputs):
        raise ServingError(f"No {method.kind} outputs found in SignatureDef: {_tensor_names(definition)}")


def classification_result(outputs: Arrays) -> classification_pb2.ClassificationResult:
    """Returns classes [B, C] and scores [B, C] as a message; either may be missing."""
    result = classification_pb2.ClassificationResult()
    classes, scores = outputs.get(CLASSES), outputs.get(SCORES)
    rows, columns = next(iter(outputs.values())).shape
    for row in range(rows):
        row_classes = result.classifications.add().classes
        for column in range(columns):
            added = row_classes.add()
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
    """Requirements and result of a method on tf.Examples."""

    kind: str  # name of the method in error messages
    outputs: Set[str]  # allowed output names of a signature, which must have at least one of them
    result: Callable[[Arrays], Any]  # converts outputs to a message


# Keys are the method names in requests and signatures.
EXAMPLE_METHODS = {
    METHODS[CLASSIFY]: ExampleMethod("classification", {CLASSES, SCORES}, classification_result),
    METHODS[REGRESS]: ExampleMethod("regression", {OUTPUTS}, regression_result),
}


def checked_tasks(
    tasks: Sequence[inference_pb2.InferenceTask], signatures: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, ExampleMethod]:
    """Returns the methods of compatible tasks by signature, in order; ServingError for others (multi_inference.cc)."""
    methods: dict[str, ExampleMethod] = {}
    for task in tasks:
        spec = task.model_spec
        name = spec.signature_name or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if not spec.name:
            raise ServingError("Found ModelSpec with an empty model name.")
        if spec.name != tasks[0].model_spec.name:
            raise ServingError("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        if name in methods:
            raise ServingError(f"Duplicate evaluation of signature: {name}")
        if name not in signatures:
            raise ServingError(f"Requested signature not found in model graph: {name}")
        if task.method_name not in EXAMPLE_METHODS:
            message = f"Unsupported signature method_name: {task.method_name}"
            raise ServingError(message, grpc.StatusCode.UNIMPLEMENTED)
        methods[name] = EXAMPLE_METHODS[task.method_name]
        check_signature(signatures[name], methods[name])
    return methods


def _tensor_names(definition: meta_graph_pb2.SignatureDef) -> str:
    return f"inputs {', '.join(sorted(definition.inputs))}, outputs {', '.join(sorted(definition.outputs))}"
