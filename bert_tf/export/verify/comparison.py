"""Reads and writes recorded outputs, and compares other outputs with them. Needs only NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORDING = Path("assets.extra") / "recorded.npz"

_LENGTHS, _BYTES = "lengths", "bytes"
_SIDES = ("inputs", "outputs", "tolerances")
_RELATIVE = "relative_tolerance"
# Padding values of outputs by dtype kind: empty string, zero probability, no position.
_FILLERS: dict[str, Any] = {"O": b"", "f": 0.0, "i": -1}

Tensors = dict[str, np.ndarray]


class Case(NamedTuple):
    """One request to a signature, its recorded outputs, and their tolerances; strings are objects of bytes."""

    signature: str
    inputs: Tensors
    outputs: Tensors
    # Float arrays by output name, each broadcastable to its output: the largest absolute difference of a number; 0 for
    # strings and integers that must be equal; infinity for values that are not compared.
    tolerances: Tensors


def write_recording(path: Path, cases: Iterable[Case], relative_tolerance: float) -> None:
    """Writes cases to a .npz file, and the rounding error relative to the largest values that they allow."""
    arrays: dict[str, Any] = {_RELATIVE: np.float64(relative_tolerance)}
    for number, (signature, *sides) in enumerate(cases):
        for side, tensors in zip(_SIDES, sides, strict=True):
            for name, value in tensors.items():
                key = f"{number}/{signature}/{side}/{name}"
                arrays |= _of_bytes(key, value) if value.dtype == object else {key: value}
    np.savez_compressed(path, **arrays)


def read_recording(path: Path) -> tuple[list[Case], float]:
    """Returns the cases and relative tolerance of a recording. Raises ValueError for one without, of version 0.1.0."""
    with np.load(path) as file:
        arrays = dict(file)
    if _RELATIVE not in arrays:
        raise ValueError(
            f"{path}: must hold `{_RELATIVE}`; an older version of bert_tf wrote it. "
            f"Run `bert-tf export` again to make a version that can be verified."
        )
    relative_tolerance = float(arrays.pop(_RELATIVE))
    cases: dict[tuple[int, str], dict[str, Tensors]] = {}
    for key, value in arrays.items():
        number, signature, side, name, *part = key.split("/")
        if part not in ([], [_LENGTHS]):
            continue
        sides = cases.setdefault((int(number), signature), {side: {} for side in _SIDES})
        sides[side][name] = _strings(value, arrays[key.removesuffix(_LENGTHS) + _BYTES]) if part else value
    return [Case(signature, **sides) for (_, signature), sides in cases.items()], relative_tolerance


def compare_outputs(actual: Tensors, case: Case) -> Iterator[tuple[str, float, str]]:
    """Yields name, largest absolute difference and fault of each output, as returned by `compare`."""
    for name in sorted(actual.keys() | case.outputs.keys()):
        yield name, *compare(actual.get(name), case.outputs.get(name), case.tolerances.get(name))


def compare(
    actual: np.ndarray | None, expected: np.ndarray | None, tolerance: np.ndarray | float | None = 0.0
) -> tuple[float, str]:
    """Compares an output with the recorded one; either is None if it is missing.

    Outputs with a list for each row may have more or fewer columns if a recorded prediction is a tie; the shorter one
    is padded. The tolerance is that of `Case`. Returns the largest absolute difference of the compared numbers, and a
    description of the fault; empty if there is no fault.
    """
    if actual is None or expected is None:
        return 0.0, "missing from the SavedModel" if actual is None else "was not recorded"
    allowed = np.broadcast_to(np.asarray(0.0 if tolerance is None else tolerance), expected.shape)
    if actual.shape != expected.shape:
        same_rows = actual.ndim == expected.ndim == 2 and len(actual) == len(expected)
        if not (same_rows and np.isinf(allowed).any()):
            return 0.0, f"shape {actual.shape}, expected {expected.shape}"
        actual, expected, allowed = _padded_alike(actual, expected, allowed)
    if actual.dtype == object or expected.dtype == object:
        wrong = (actual != expected) & (allowed == 0)
        return 0.0, f"{np.sum(wrong)} of {actual.size} strings differ" if wrong.any() else ""
    difference = np.abs(actual.astype(np.float64) - expected)
    compared = np.isfinite(difference) & ~np.isinf(allowed)
    largest = float(np.max(difference, initial=0.0, where=compared))
    right = (difference <= allowed) | np.isinf(allowed) | (np.isnan(actual) & np.isnan(expected))
    if right.all():
        return largest, ""
    worst = np.argmax(np.where(right, -1.0, np.nan_to_num(difference - allowed, nan=np.inf, posinf=np.inf)))
    return largest, f"differs by {difference.flat[worst]:.3g}, allowed is {allowed.flat[worst]:.3g}"


def _padded_alike(
    actual: np.ndarray, expected: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pads the arrays to the wider one's columns, which may hold only padding values in rows without ties."""
    columns = max(actual.shape[1], expected.shape[1])
    row_is_open = np.isinf(allowed).any(axis=1)
    added = np.where(row_is_open, np.inf, 0.0)[:, np.newaxis].repeat(columns - allowed.shape[1], axis=1)
    filler = _FILLERS[expected.dtype.kind]
    actual, expected = (
        np.pad(values, [(0, 0), (0, columns - values.shape[1])], constant_values=filler)
        for values in (actual, expected)
    )
    return actual, expected, np.concatenate([allowed, added], axis=1)


def _of_bytes(key: str, strings: np.ndarray) -> Tensors:
    """Encodes strings as two numeric arrays; NumPy's own string arrays drop trailing zero bytes."""
    lengths = np.array([len(string) for string in strings.reshape(-1)], np.int64).reshape(strings.shape)
    joined = np.frombuffer(b"".join(strings.reshape(-1)), np.uint8)
    return {f"{key}/{_LENGTHS}": lengths, f"{key}/{_BYTES}": joined}


def _strings(lengths: np.ndarray, joined: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths)
    whole = joined.tobytes()
    strings = np.empty(lengths.size, object)
    strings[:] = [whole[end - length : end] for end, length in zip(ends, lengths.reshape(-1), strict=True)]
    return strings.reshape(lengths.shape)
