"""Classify and Regress: lists of tf.Examples in, classes with scores or numbers out.

Rules and messages are those of TF Serving (servables/tensorflow/classifier.cc, regressor.cc and util.cc).
"""

from __future__ import annotations

import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from bert_tf.export.metadata import CLASSIFY_INPUTS
from bert_tf.export.serving.batching import Arrays
from bert_tf.export.serving.errors import ServingError
from bert_tf.export.serving.tensors import check_rows

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


def check_signature(definition: meta_graph_pb2.SignatureDef, kind: str, outputs: set[str], most: int) -> None:
    """Refuses a signature that does not answer requests of a kind.

    Args:
        definition: of the signature.
        kind: `classification` or `regression`.
        outputs: names of which it must have at least one.
        most: outputs it may have.

    Raises:
        ServingError: where it does not.
    """
    if len(definition.inputs) != 1:
        raise ServingError("Expected one input Tensor.")
    if not 1 <= len(definition.outputs) <= most:
        expected = "one output Tensor." if most == 1 else f"one or two output Tensors, found {len(definition.outputs)}"
        raise ServingError(f"Expected {expected}")
    if CLASSIFY_INPUTS not in definition.inputs:
        raise ServingError(f"No {kind} inputs found in SignatureDef: {_named(definition)}")
    if not outputs & set(definition.outputs):
        raise ServingError(f"No {kind} outputs found in SignatureDef: {_named(definition)}")


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


def _named(definition: meta_graph_pb2.SignatureDef) -> str:
    return f"inputs {', '.join(sorted(definition.inputs))}, outputs {', '.join(sorted(definition.outputs))}"
