"""`python -m bert_tf.export.verify FOLDER [RECORDING]` compares a SavedModel with recorded outputs of its source model.

It runs in a separate process with TensorFlow and tensorflow-text but without Keras or this package's models, as a
server does. It also runs the warm-up requests. It prints the largest differences as JSON. If a difference is too large
or a request fails, it exits with status 1 and the reasons on stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

from bert_tf.export.metadata import WARMUP
from bert_tf.export.runtime import without_gradient_warnings
from bert_tf.export.verify.comparison import RECORDING, Tensors, compare_outputs, read_recording


class Verdict(NamedTuple):
    """Result of `verify`, with one line for each failure."""

    max_abs_difference: dict[str, float]  # largest difference of the compared values, by signature
    tolerance: float  # allowed rounding error, relative to the largest value of an output
    warmup_requests: int
    failures: list[str]


def verify(folder: Path, recording: Path) -> Verdict:
    """Runs a SavedModel's warm-up requests, and compares its outputs with recorded ones within their tolerances."""
    with without_gradient_warnings():
        signatures = tf.saved_model.load(str(folder)).signatures
    warmup_requests, failures = _run_warmup(signatures, folder)
    cases, tolerance = read_recording(recording)
    largest: dict[str, float] = dict.fromkeys(signatures, 0.0)
    missing = set(signatures)
    for case in cases:
        name = case.signature
        if name not in signatures:
            failures.append(f"signature `{name}`: not in the SavedModel")
            continue
        missing.discard(name)
        for output, difference, failure in compare_outputs(_run_signature(signatures, name, case.inputs), case):
            largest[name] = max(largest[name], difference)
            if failure:
                failures.append(f"signature `{name}`, output `{output}`: {failure}")
    failures += [f"signature `{name}`: nothing recorded" for name in sorted(missing)]
    return Verdict(largest, tolerance, warmup_requests, failures)


def _run_signature(signatures: Any, name: str, inputs: Tensors) -> Tensors:
    specs = signatures[name].structured_input_signature[1]
    outputs = signatures[name](**{key: tf.constant(inputs[key], spec.dtype) for key, spec in specs.items()})
    return {key: tensor.numpy() for key, tensor in outputs.items()}


def _run_warmup(signatures: Any, folder: Path) -> tuple[int, list[str]]:
    """Runs the warm-up requests; returns their number, and one line for each failure."""
    if not (folder / WARMUP).exists():
        return 0, []
    # Imported late: versions without warm-up requests can be verified without tensorflow-serving-api.
    from bert_tf.export.warmup import read_warmup, request_of

    number, failures = 0, []
    try:
        for number, log in enumerate(read_warmup(folder), start=1):
            name, inputs = request_of(log)
            try:
                _run_signature(signatures, name, inputs)
            except (KeyError, ValueError, TypeError, tf.errors.OpError) as error:
                reason = " ".join(str(error).split())
                failures.append(f"warm-up request {number}, signature `{name}`: {type(error).__name__}: {reason}")
    except ValueError as error:
        failures.append(f"{WARMUP}: unreadable after {number} requests: {error}")
    return number, failures


def main(arguments: list[str]) -> int:
    """Verifies a version, prints the result and returns the exit status."""
    if len(arguments) not in (1, 2):
        print("usage: python -m bert_tf.export.verify FOLDER [RECORDING]", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    verdict = verify(folder, Path(arguments[1]) if len(arguments) == 2 else folder / RECORDING)
    for failure in verdict.failures:
        print(failure, file=sys.stderr)
    print(json.dumps({name: value for name, value in verdict._asdict().items() if name != "failures"}))
    return 1 if verdict.failures else 0
