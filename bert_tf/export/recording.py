"""What the live model answers to a few samples, for the exported one to be held against."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.export.kinds.base import Signatures
from bert_tf.export.samples import comparison_samples
from bert_tf.export.verify import Tensors, compare

Case = tuple[str, Tensors, Tensors]

# How far layers laid out for inference may lead from those of the training, in float32, relative above 1: they sum in
# another order. The 24 layers of large, their weights random, led 7e-6 away.
_ARRANGEMENT_TOLERANCE = 1e-5


def record(signatures: Signatures) -> list[Case]:
    """Runs every signature on a batch of samples and on an empty batch.

    Returns:
        Name of the signature, inputs and outputs by name; strings as objects of bytes.
    """
    samples = comparison_samples(signatures)
    empty = {name: value[:0] for name, value in samples.items()}
    cases = []
    for name, endpoint in signatures.endpoints.items():
        # As it is exported: operation by operation, sums may come out otherwise in the last digit.
        function = tf.function(endpoint.function, input_signature=endpoint.inputs)
        for batch in (samples, empty):
            inputs = {str(spec.name): batch[str(spec.name)] for spec in endpoint.inputs}
            tensors = [tf.constant(inputs[str(spec.name)], spec.dtype) for spec in endpoint.inputs]
            outputs = {key: value.numpy() for key, value in function(*tensors).items()}
            cases.append((name, inputs, outputs))
    return cases


def check_arrangement(arranged: list[Case], as_trained: list[Case]) -> None:
    """Checks that a model laid out for inference answers as the model that was trained.

    Strings and whole numbers are left out: they follow from figures, and change where two of these are all but equal.

    Args:
        arranged, as_trained: from `record`, both in float32.

    Raises:
        RuntimeError: where a figure differs by more than the order of a sum explains.
    """
    for (name, _, answers), (_, _, expected) in zip(arranged, as_trained, strict=True):
        for output, values in answers.items():
            if values.dtype != np.float32:
                continue
            _, failure = compare(values, expected[output], _ARRANGEMENT_TOLERANCE)
            if failure:
                raise RuntimeError(
                    f"laid out for inference, the model does not answer as the preset does; nothing was exported. "
                    f"Signature `{name}`, output `{output}`: {failure}"
                )


def differences(cases: list[Case], reference: list[Case]) -> dict[str, dict[str, Any]]:
    """Compares answers of two models of one preset.

    Args:
        cases, reference: from `record`.

    Returns:
        By signature `max_abs_difference` of the figures, and `other`, the names of outputs whose strings, whole numbers
        or shape are not those of the reference.
    """
    found: dict[str, dict[str, Any]] = {}
    for (name, _, answers), (_, _, expected) in zip(cases, reference, strict=True):
        of_signature = found.setdefault(name, {"max_abs_difference": 0.0, "other": []})
        for output, values in answers.items():
            wanted = expected[output]
            if values.dtype == np.float32 and values.shape == wanted.shape:
                largest = float(np.max(np.abs(values - wanted), initial=0.0))
                of_signature["max_abs_difference"] = max(of_signature["max_abs_difference"], largest)
            elif not np.array_equal(values, wanted):
                of_signature["other"].append(output)
    return found
