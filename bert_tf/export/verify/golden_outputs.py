"""Recorded answers of a live model to a few samples, with which the exported one is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK
from bert_tf.export.kinds.base import IDS_SIGNATURE, Endpoint, Signatures
from bert_tf.export.verify.comparison import Case, Tensors, compare, compare_outputs
from bert_tf.export.verify.sample_requests import comparison_samples
from bert_tf.export.verify.tolerances import (
    LARGEST_HIDDEN,
    at_tokens,
    largest,
    probability_tolerance,
    relative_tolerance,
    undecided,
)


class _Errors(NamedTuple):
    """Rounding errors of one model: relative to the largest value of an output, and of its logits, absolute."""

    relative: float
    of_logits: float


def record(signatures: Signatures, precision: str) -> list[Case]:
    """Runs every signature on a batch of samples and on an empty batch.

    Args:
        signatures: of the preset.
        precision: in which the model computes, for the tolerances.

    Returns:
        Requests and answers, with the differences that rounding explains.
    """
    samples = comparison_samples(signatures)
    empty = {name: value[:0] for name, value in samples.items()}
    requests = [
        (name, batch, outputs)
        for name, endpoint in signatures.endpoints.items()
        for batch, outputs in zip((samples, empty), _answers(endpoint, (samples, empty)), strict=True)
    ]
    relative = relative_tolerance(precision, signatures.preset.config)
    errors = _Errors(relative, relative * _largest_logit(signatures, samples, requests))
    cases = []
    for name, batch, outputs in requests:
        tolerances = {
            output: np.asarray(_tolerance(signatures, (name, output), values, batch, errors))
            for output, values in outputs.items()
        }
        tolerances = undecided(tolerances, signatures.open_values(name, batch, outputs, errors.of_logits), outputs)
        inputs = {str(spec.name): batch[str(spec.name)] for spec in signatures.endpoints[name].inputs}
        cases.append(Case(name, inputs, outputs, tolerances))
    return cases


def _answers(endpoint: Endpoint, batches: tuple[Tensors, ...]) -> Iterator[Tensors]:
    """Yields the outputs for each batch."""
    # A graph, as it is exported: operation by operation, the last digits of sums may differ.
    function = tf.function(endpoint.function, input_signature=endpoint.inputs)
    for batch in batches:
        outputs = function(*(tf.constant(batch[str(spec.name)], spec.dtype) for spec in endpoint.inputs))
        yield {output: tensor.numpy() for output, tensor in outputs.items()}


def _largest_logit(signatures: Signatures, samples: Tensors, requests: list[tuple[str, Tensors, Tensors]]) -> float:
    """Returns the largest absolute logit of the samples at tokens that are not padding, at least 1."""
    (outputs,) = (found for name, batch, found in requests if name == IDS_SIGNATURE and batch is samples)
    logits = (_at_tokens_only(signatures, output, outputs[output], samples) for output in signatures.logits)
    return max((largest(values) for values in logits), default=1.0)


def _at_tokens_only(signatures: Signatures, output: str, values: np.ndarray, batch: Tensors) -> np.ndarray:
    return values[batch[PADDING_MASK] == 1] if output in signatures.by_token else values


def _tolerance(
    signatures: Signatures, names: tuple[str, str], values: np.ndarray, batch: Tensors, errors: _Errors
) -> np.ndarray | float:
    """Returns the tolerance of one output, as in `comparison.Case`, without regard to ties.

    Args:
        signatures: of the preset.
        names: of the signature and the output.
        values: of the output.
        batch: the samples.
        errors: of the model.
    """
    signature, output = names
    if values.dtype.kind != "f":
        return 0.0
    if output in signatures.probabilities:
        return probability_tolerance(values, signatures.logits_of_score * errors.of_logits)
    if output in signatures.score_differences:
        return 2 * signatures.logits_of_score * errors.of_logits
    if signature == IDS_SIGNATURE and output in signatures.by_token:
        size = largest(_at_tokens_only(signatures, output, values, batch))
        return at_tokens(errors.relative * size, batch[PADDING_MASK], values.ndim)
    return errors.relative * (LARGEST_HIDDEN if output in signatures.outputs_of_tanh else largest(values))


def check_arrangement(arranged: list[Case], as_trained: list[Case]) -> None:
    """Checks that a model arranged for inference answers as the model that was trained.

    Args:
        arranged, as_trained: from `record`, both in float32.

    Raises:
        RuntimeError: if an answer differs by more than the order of a sum explains.
    """
    for found, expected in zip(arranged, as_trained, strict=True):
        for output, _, failure in compare_outputs(found.outputs, expected):
            if failure:
                raise RuntimeError(
                    f"the model arranged for inference does not answer as the preset does; nothing was exported. "
                    f"Signature `{expected.signature}`, output `{output}`: {failure}"
                )


def differences(cases: list[Case], reference: list[Case]) -> dict[str, dict[str, Any]]:
    """Compares answers of two models of one preset.

    Args:
        cases, reference: from `record`.

    Returns:
        By signature `max_abs_difference` of the numbers at tokens that are not padding, and `other`, the names of
        outputs whose strings, integers or shape are not those of the reference.
    """
    result: dict[str, dict[str, Any]] = {}
    for (name, _, outputs, _), expected in zip(cases, reference, strict=True):
        of_signature = result.setdefault(name, {"max_abs_difference": 0.0, "other": []})
        for output, values in outputs.items():
            wanted, tolerance = expected.outputs[output], expected.tolerances[output]
            difference, failure = compare(values, wanted, tolerance)
            if values.dtype == np.float32 and values.shape == wanted.shape:
                of_signature["max_abs_difference"] = max(of_signature["max_abs_difference"], difference)
            elif failure:
                of_signature["other"].append(output)
    return result
