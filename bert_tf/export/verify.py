"""`python -m bert_tf.export.verify FOLDER [RECORDING]`: does a SavedModel answer as its model did?

Run in a process of its own, which knows TensorFlow and tensorflow-text and nothing of Keras or of this package:
what a server knows. Prints the largest differences as JSON; status 1 and the reasons on stderr where one is too
large.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

TOLERANCE = 1e-5
RECORDING = Path("assets.extra") / "recorded.npz"

_LENGTHS, _BYTES = "lengths", "bytes"

Tensors = dict[str, np.ndarray]


def write_recording(path: Path, cases: list[tuple[str, Tensors, Tensors]]) -> None:
    """Writes what signatures were given and answered.

    Args:
        path: the .npz file.
        cases: name of the signature, inputs and outputs by name; strings as bytes.
    """
    arrays: dict[str, Any] = {}
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
        number, signature, side, name, *part = key.split("/")
        if part not in ([], [_LENGTHS]):
            continue
        sides = cases.setdefault((int(number), signature), {"inputs": {}, "outputs": {}})
        sides[side][name] = _strings(value, arrays[key.removesuffix(_LENGTHS) + _BYTES]) if part else value
    for (_, signature), sides in cases.items():
        yield signature, sides["inputs"], sides["outputs"]


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


def verify(folder: Path, recording: Path) -> tuple[dict[str, float], list[str]]:
    """Compares the answers of a SavedModel with recorded ones.

    Args:
        folder: holds saved_model.pb.
        recording: from `write_recording`.

    Returns:
        The largest absolute difference by signature, and a line for every output that differs by more than
        `TOLERANCE` (relative above 1) or, for strings and shapes, at all.
    """
    signatures = tf.saved_model.load(str(folder)).signatures
    largest: dict[str, float] = dict.fromkeys(signatures, 0.0)
    failures = [f"signature `{name}`: nothing recorded" for name in signatures]
    for name, inputs, expected in read_recording(recording):
        if name not in signatures:
            failures.append(f"signature `{name}`: not in the SavedModel")
            continue
        failures = [line for line in failures if line != f"signature `{name}`: nothing recorded"]
        specs = signatures[name].structured_input_signature[1]
        answer = signatures[name](**{key: tf.constant(inputs[key], spec.dtype) for key, spec in specs.items()})
        for output in sorted(expected.keys() | answer.keys()):
            where = f"signature `{name}`, output `{output}`"
            difference, failure = _compare(answer.get(output), expected.get(output))
            largest[name] = max(largest[name], difference)
            if failure:
                failures.append(f"{where}: {failure}")
    return largest, failures


def _compare(tensor: Any, expected: np.ndarray | None) -> tuple[float, str]:
    if tensor is None or expected is None:
        return 0.0, "missing from the SavedModel" if tensor is None else "was not recorded"
    found = tensor.numpy()
    if found.shape != expected.shape:
        return 0.0, f"shape {found.shape}, expected {expected.shape}"
    if found.dtype == object:
        different = int(np.sum(found != expected))
        return 0.0, f"{different} of {found.size} strings differ" if different else ""
    difference = np.abs(found.astype(np.float64) - expected)
    same = (difference <= TOLERANCE * np.maximum(1.0, np.abs(expected))) | (np.isnan(found) & np.isnan(expected))
    largest = float(np.max(difference, initial=0.0, where=~np.isnan(difference)))
    return largest, "" if same.all() else f"differs by up to {largest:.3g}, allowed are {TOLERANCE:g}"


def main(arguments: list[str]) -> int:
    """Verifies, reports, and returns the exit status."""
    if len(arguments) not in (1, 2):
        print("usage: python -m bert_tf.export.verify FOLDER [RECORDING]", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    largest, failures = verify(folder, Path(arguments[1]) if len(arguments) == 2 else folder / RECORDING)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(json.dumps({"max_abs_difference": largest}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
