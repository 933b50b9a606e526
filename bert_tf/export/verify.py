"""`python -m bert_tf.export.verify FOLDER [RECORDING]`: does a SavedModel answer as its model did?

Run in a process of its own, which knows TensorFlow and tensorflow-text and nothing of Keras or of this package's
models: what a server knows. Plays the warm-up requests, too. Prints the largest differences as JSON; status 1 and the
reasons on stderr where one is too large or a request fails.
"""

from __future__ import annotations

if __name__ == "__main__":
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)
from google.protobuf.message import DecodeError

from bert_tf.entry.errors import run_program
from bert_tf.export.metadata import WARMUP
from bert_tf.export.runtime import without_gradient_warnings

TOLERANCE = 1e-5
RECORDING = Path("assets.extra") / "recorded.npz"

_LENGTHS, _BYTES, _TOLERANCE = "lengths", "bytes", "tolerance"

Tensors = dict[str, np.ndarray]


class Verdict(NamedTuple):
    """What is known of a SavedModel after `verify`.

    Args:
        max_abs_difference: the largest by signature.
        tolerance: what was allowed, relative above 1.
        warmup_requests: how many were played.
        failures: a line for whatever is wrong.
    """

    max_abs_difference: dict[str, float]
    tolerance: float
    warmup_requests: int
    failures: list[str]


def write_recording(path: Path, cases: list[tuple[str, Tensors, Tensors]], tolerance: float = TOLERANCE) -> None:
    """Writes what signatures were given and answered.

    Args:
        path: the .npz file.
        cases: name of the signature, inputs and outputs by name; strings as bytes.
        tolerance: how far numbers may be from these, relative above 1.
    """
    arrays: dict[str, Any] = {_TOLERANCE: np.float64(tolerance)}
    for number, (signature, inputs, outputs) in enumerate(cases):
        for side, tensors in (("inputs", inputs), ("outputs", outputs)):
            for name, value in tensors.items():
                key = f"{number}/{signature}/{side}/{name}"
                arrays |= _of_bytes(key, value) if value.dtype == object else {key: value}
    np.savez_compressed(path, **arrays)


def read_recording(path: Path) -> Iterator[tuple[str, Tensors, Tensors]]:
    """Yields what `write_recording` was given."""
    cases: dict[tuple[int, str], dict[str, Tensors]] = {}
    with np.load(path) as file:
        arrays = dict(file)
    for key, value in arrays.items():
        if key == _TOLERANCE:
            continue
        number, signature, side, name, *part = key.split("/")
        if part not in ([], [_LENGTHS]):
            continue
        sides = cases.setdefault((int(number), signature), {"inputs": {}, "outputs": {}})
        sides[side][name] = _strings(value, arrays[key.removesuffix(_LENGTHS) + _BYTES]) if part else value
    for (_, signature), sides in cases.items():
        yield signature, sides["inputs"], sides["outputs"]


def recorded_tolerance(path: Path) -> float:
    """Returns how far numbers may be from those of a recording, relative above 1."""
    with np.load(path) as file:
        return float(file[_TOLERANCE]) if _TOLERANCE in file else TOLERANCE


def _of_bytes(key: str, strings: np.ndarray) -> Tensors:
    """Returns strings as two arrays of numbers; numpy's own drop the zeros that a string ends with."""
    lengths = np.array([len(string) for string in strings.reshape(-1)], np.int64).reshape(strings.shape)
    joined = np.frombuffer(b"".join(strings.reshape(-1)), np.uint8)
    return {f"{key}/{_LENGTHS}": lengths, f"{key}/{_BYTES}": joined}


def _strings(lengths: np.ndarray, joined: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths)
    whole = joined.tobytes()
    found = np.empty(lengths.size, object)
    found[:] = [whole[end - length : end] for end, length in zip(ends, lengths.reshape(-1), strict=True)]
    return found.reshape(lengths.shape)


def verify(folder: Path, recording: Path) -> Verdict:
    """Plays the warm-up requests of a SavedModel, and compares its answers with recorded ones.

    Args:
        folder: holds saved_model.pb.
        recording: from `write_recording`.

    Returns:
        The verdict. A failure is every request that is not answered and every output that differs by more than the
        recording's tolerance or, for strings and shapes, at all.
    """
    with without_gradient_warnings():
        signatures = tf.saved_model.load(str(folder)).signatures
    played, failures = _played(signatures, folder)
    tolerance = recorded_tolerance(recording)
    largest: dict[str, float] = dict.fromkeys(signatures, 0.0)
    missing = set(signatures)
    for name, inputs, expected in read_recording(recording):
        if name not in signatures:
            failures.append(f"signature `{name}`: not in the SavedModel")
            continue
        missing.discard(name)
        answer = _answer(signatures, name, inputs)
        for output in sorted(expected.keys() | answer.keys()):
            difference, failure = compare(answer.get(output), expected.get(output), tolerance)
            largest[name] = max(largest[name], difference)
            if failure:
                failures.append(f"signature `{name}`, output `{output}`: {failure}")
    failures += [f"signature `{name}`: nothing recorded" for name in sorted(missing)]
    return Verdict(largest, tolerance, played, failures)


def _answer(signatures: Any, name: str, inputs: Tensors) -> Tensors:
    specs = signatures[name].structured_input_signature[1]
    outputs = signatures[name](**{key: tf.constant(inputs[key], spec.dtype) for key, spec in specs.items()})
    return {key: tensor.numpy() for key, tensor in outputs.items()}


def _played(signatures: Any, folder: Path) -> tuple[int, list[str]]:
    """Plays the warm-up requests; returns how many there are, and a line for each that fails."""
    if not (folder / WARMUP).exists():
        return 0, []
    # Without tensorflow-serving-api, versions that have no such requests can be verified.
    from bert_tf.export.warmup import read_warmup, request_of

    number, failures = 0, []
    try:
        for number, log in enumerate(read_warmup(folder), start=1):
            name, inputs = request_of(log)
            try:
                _answer(signatures, name, inputs)
            except (KeyError, ValueError, TypeError, tf.errors.OpError) as error:
                reason = " ".join(str(error).split())
                failures.append(f"warm-up request {number}, signature `{name}`: {type(error).__name__}: {reason}")
    except (ValueError, DecodeError, tf.errors.OpError) as error:
        failures.append(f"{WARMUP}: unreadable after {number} requests: {error}")
    return number, failures


def compare(found: np.ndarray | None, expected: np.ndarray | None, tolerance: float) -> tuple[float, str]:
    """Compares an output with the recorded one.

    Args:
        found, expected: strings as objects of bytes; None where there is none.
        tolerance: for numbers, relative above 1.

    Returns:
        The largest absolute difference of numbers, and what is wrong; empty where nothing is.
    """
    if found is None or expected is None:
        return 0.0, "missing from the SavedModel" if found is None else "was not recorded"
    if found.shape != expected.shape:
        return 0.0, f"shape {found.shape}, expected {expected.shape}"
    if found.dtype == object:
        different = int(np.sum(found != expected))
        return 0.0, f"{different} of {found.size} strings differ" if different else ""
    difference = np.abs(found.astype(np.float64) - expected)
    same = (difference <= tolerance * np.maximum(1.0, np.abs(expected))) | (np.isnan(found) & np.isnan(expected))
    largest = float(np.max(difference, initial=0.0, where=~np.isnan(difference)))
    return largest, "" if same.all() else f"differs by up to {largest:.3g}, allowed are {tolerance:g}"


def main(arguments: list[str]) -> int:
    """Verifies, reports, and returns the exit status."""
    if len(arguments) not in (1, 2):
        print("usage: python -m bert_tf.export.verify FOLDER [RECORDING]", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    verdict = verify(folder, Path(arguments[1]) if len(arguments) == 2 else folder / RECORDING)
    for failure in verdict.failures:
        print(failure, file=sys.stderr)
    print(json.dumps({name: value for name, value in verdict._asdict().items() if name != "failures"}))
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
