"""Golden outputs: recorded outputs of a live model, with which the exported model is compared."""

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
    """Rounding errors of one model: relative to the largest value of an output, and absolute for its logits."""

    relative: float
    of_logits: float


def record(signatures: Signatures, precision: str) -> list[Case]:
    """Runs all signatures on samples and on an empty batch; returns cases with the tolerances of the precision."""
    samples = comparison_samples(signatures)
    empty = {name: value[:0] for name, value in samples.items()}
    requests = [
        (name, batch, outputs)
        for name, endpoint in signatures.served.items()
        for batch, outputs in zip((samples, empty), _outputs(endpoint, (samples, empty)), strict=True)
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
        inputs = {str(spec.name): batch[str(spec.name)] for spec in signatures.served[name].inputs}
        cases.append(Case(name, inputs, outputs, tolerances))
    return cases


def _outputs(endpoint: Endpoint, batches: tuple[Tensors, ...]) -> Iterator[Tensors]:
    """Yields the outputs for each batch."""
    # A graph, as in the export: in eager execution the last digits of sums may differ.
    function = tf.function(endpoint.function, input_signature=endpoint.inputs)
    for batch in batches:
        outputs = function(*(tf.constant(batch[str(spec.name)], spec.dtype) for spec in endpoint.inputs))
        yield {output: tensor.numpy() for output, tensor in outputs.items()}


def _largest_logit(signatures: Signatures, samples: Tensors, requests: list[tuple[str, Tensors, Tensors]]) -> float:
    """Returns the largest absolute logit of the samples at tokens that are not padding, at least 1."""
    (outputs,) = (result for name, batch, result in requests if name == IDS_SIGNATURE and batch is samples)
    logits = (_at_tokens_only(signatures, output, outputs[output], samples) for output in signatures.logits)
    return max((largest(values) for values in logits), default=1.0)


def _at_tokens_only(signatures: Signatures, output: str, values: np.ndarray, batch: Tensors) -> np.ndarray:
    return values[batch[PADDING_MASK] == 1] if output in signatures.by_token else values


def _tolerance(
    signatures: Signatures, names: tuple[str, str], values: np.ndarray, batch: Tensors, errors: _Errors
) -> np.ndarray | float:
    """Returns the tolerance of one output, as in `comparison.Case`, ignoring ties; `names` are signature and output."""
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
    """Raises RuntimeError if float32 cases of a model arranged for inference differ from those as trained."""
    for case, expected in zip(arranged, as_trained, strict=True):
        for output, _, failure in compare_outputs(case.outputs, expected):
            if failure:
                raise RuntimeError(
                    f"the outputs of the model arranged for inference must equal those of the preset; nothing was "
                    f"exported. Received: signature `{expected.signature}`, output `{output}`: {failure}"
                )


def differences(cases: list[Case], reference: list[Case]) -> dict[str, dict[str, Any]]:
    """Compares the cases of `record` for two models of one preset.

    Returns, by signature, `max_abs_difference` of the numbers at tokens that are not padding, and `other`, the names of
    outputs with other strings, integers or shapes than the reference.
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
