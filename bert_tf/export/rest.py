"""The JSON of TF Serving's REST predict: requests to arrays, arrays to answers.

Row form: `{"instances": [...]}`, a value or an object of inputs for each row, answered by `predictions`. Column
form: `{"inputs": ...}`, one value or an object of inputs, answered by `outputs`. Bytes are `{"b64": "..."}`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

ROW_KEY, COLUMN_KEY, SIGNATURE_KEY, BYTES_KEY = "instances", "inputs", "signature_name", "b64"
BAD_REQUEST, NOT_FOUND, TOO_LARGE, INTERNAL, NOT_IMPLEMENTED = 400, 404, 413, 500, 501
_SHOWN = 120
_INT32 = np.iinfo(np.int32)

Specs = Mapping[str, tf.TensorSpec]


class RestError(Exception):
    """A request that is answered by `{"error": message}` and an HTTP status."""

    def __init__(self, message: str, status: int = BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """The body of a predict request.

    Args:
        signature: name of the signature; empty for the default one.
        rows: whether the values came in row form.
        values: what stood under `instances` or `inputs`.
    """

    signature: str
    rows: bool
    values: Any

    @classmethod
    def from_json(cls, body: bytes) -> Request:
        """Reads a body. Raises RestError where it is not a predict request."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RestError(f"JSON Parse error: {error}") from error
        if not isinstance(document, dict):
            raise RestError(f"expected a JSON object. Received: {_shown(document)}")
        signature = document.get(SIGNATURE_KEY, "")
        if not isinstance(signature, str):
            raise RestError(f"'{SIGNATURE_KEY}' must be a string. Received: {_shown(signature)}")
        keys = [key for key in (ROW_KEY, COLUMN_KEY) if key in document]
        if not keys:
            raise RestError(f"Missing '{COLUMN_KEY}' or '{ROW_KEY}' key")
        if len(keys) == 2:
            raise RestError(f"expected only one of '{COLUMN_KEY}' and '{ROW_KEY}'. Received: both")
        values = document[keys[0]]
        if keys[0] == ROW_KEY and (not isinstance(values, list) or not values):
            raise RestError(f"'{ROW_KEY}' must be a list of at least one element. Received: {_shown(values)}")
        return cls(signature, keys[0] == ROW_KEY, values)

    def arrays(self, specs: Specs) -> dict[str, np.ndarray]:
        """Returns one array for each input of a signature.

        Args:
            specs: the signature's inputs by name.

        Raises:
            RestError: for other inputs, values of another type, or lists that are no array.
        """
        columns = self._row_columns(specs) if self.rows else self._named(self.values, specs)
        return {name: _array(columns[name], spec, name) for name, spec in specs.items()}

    def _row_columns(self, specs: Specs) -> dict[str, list[Any]]:
        named = [self._named(row, specs) for row in self.values]
        return {name: [row[name] for row in named] for name in specs}

    def _named(self, value: Any, specs: Specs) -> dict[str, Any]:
        if isinstance(value, dict) and not _is_bytes(value):
            _check_names(value.keys(), specs.keys())
            return value
        if len(specs) > 1:
            expected = f"expected an object of the inputs {', '.join(sorted(specs))}"
            raise RestError(f"{expected}. Received: {_shown(value)}")
        return dict.fromkeys(specs, value)


def answer_json(outputs: Mapping[str, np.ndarray], *, rows: bool) -> bytes:
    """Returns the answer to a predict request.

    A signature with one output gives bare values, one with several objects. NaN and infinities become the
    tokens `NaN`, `Infinity` and `-Infinity`, as in TF Serving; strings that are not UTF-8 keep what can be read.

    Args:
        outputs: arrays by name; strings as objects of bytes.
        rows: whether the request was in row form.

    Raises:
        RestError: in row form, when the outputs do not have one batch size.
    """
    values = {name: _plain(outputs[name]) for name in sorted(outputs)}
    if not rows:
        return json.dumps({"outputs": _bare(values)}).encode()
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise RestError(f"outputs with inconsistent batch sizes; use '{COLUMN_KEY}'. Received: {sizes}")
    batch = next(iter(sizes.values())) or 0
    rows_of_values = [_bare({name: column[row] for name, column in values.items()}) for row in range(batch)]
    return json.dumps({"predictions": rows_of_values}).encode()


def _bare(values: dict[str, Any]) -> Any:
    return values if len(values) > 1 else next(iter(values.values()))


def _plain(array: np.ndarray) -> Any:
    if array.dtype == object:
        decoded = [value.decode("utf-8", "replace") for value in array.reshape(-1)]
        return np.array(decoded, dtype=object).reshape(array.shape).tolist()
    if array.dtype == np.float32:
        # The shortest digits that give the same float32, not those of its double.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()


def _array(value: Any, spec: tf.TensorSpec, name: str) -> np.ndarray:
    if spec.dtype not in (tf.string, tf.int32):
        raise RestError(f"input {name}: no way from JSON to {spec.dtype.name}", NOT_IMPLEMENTED)
    convert = _bytes if spec.dtype == tf.string else _int32
    leaves: list[Any] = []
    try:
        shape = _shape(value)
        _flatten(value, shape, lambda leaf: leaves.append(convert(leaf, name)), name)
    except RecursionError as error:
        raise RestError(f"input {name}: lists nested too deeply") from error
    array = np.empty(len(leaves), object if spec.dtype == tf.string else np.int32)
    array[:] = leaves
    return array.reshape(shape)


def _shape(value: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value: Any, shape: tuple[int, ...], take: Any, name: str) -> None:
    if not shape and not isinstance(value, list):
        take(value)
        return
    if not shape or not isinstance(value, list) or len(value) != shape[0]:
        size = f"a list of {shape[0]}, as its first sibling" if shape else "no list"
        raise RestError(f"input {name}: rows of unequal shape: expected {size}. Received: {_shown(value)}")
    for item in value:
        _flatten(item, shape[1:], take, name)


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise RestError(f"input {name}: half of a surrogate pair in {_shown(value)}") from error
    if not _is_bytes(value):
        raise RestError(f"input {name}: expected a string. Received: {_shown(value)}")
    try:
        return base64.b64decode(value[BYTES_KEY], validate=True)
    except (binascii.Error, ValueError) as error:
        raise RestError(f"input {name}: not base64: {error}. Received: {_shown(value)}") from error


def _int32(value: Any, name: str) -> int:
    if type(value) is not int or not _INT32.min <= value <= _INT32.max:
        raise RestError(f"input {name}: expected an int32. Received: {_shown(value)}")
    return value


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {BYTES_KEY} and isinstance(value[BYTES_KEY], str)


def _check_names(received: Any, expected: Any) -> None:
    if received == expected:
        return
    extra, missing = sorted(received - expected), sorted(expected - received)
    raise RestError(
        f"input size does not match signature: {len(received)}!={len(expected)} "
        f"len({{{','.join(sorted(received))}}}) != len({{{','.join(sorted(expected))}}}). "
        f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."[:2000]
    )


def _shown(value: Any) -> str:
    # A slice first: the whole of a large value would be rendered only to be cut.
    text = repr(value[:_SHOWN] if isinstance(value, str | list) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
