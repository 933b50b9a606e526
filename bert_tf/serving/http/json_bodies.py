"""Converts between arrays and the JSON of TF Serving's REST methods predict, classify and regress.

Row format: `{"instances": [...]}`, a value or an object of inputs for each row; the response has `predictions`. Column
format: `{"inputs": ...}`, one value or an object of inputs; the response has `outputs`. Classify and regress take
`{"examples": [...]}`, an object of features for each; the response has `results`. Bytes are `{"b64": "..."}`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from bert_tf.export.json_values import float32_digits, nested_lists
from bert_tf.serving.errors import ServingError
from bert_tf.serving.requests.tensors import MAX_RANK, Specs, check_names, check_rank, check_rows

ROW_KEY, COLUMN_KEY, SIGNATURE_KEY, BYTES_KEY = "instances", "inputs", "signature_name", "b64"
EXAMPLES_KEY, CONTEXT_KEY, RESULTS_KEY = "examples", "context", "results"
_SHOWN = 120
# Each mark may belong to a value, which takes about 60 bytes in Python; the longest rows of ids have a third as many.
_MARKS, _MAX_MARKS = (b",", b"[", b"{"), 2**20
# Each mark may belong to an object key. Distinct keys are the slowest to parse: 2^18 take 0.13 s, during which no other
# thread runs. Texts of 16 MiB have fewer, unless one byte in 64 is a colon.
_KEY_MARK, _MAX_KEYS = b":", 2**18
# An example has one feature for each text or id column of a row.
_MAX_FEATURES = 256
# Number of response values that are converted at once, in about 20 ms.
_PART_VALUES = 2**14
_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)


@dataclass(frozen=True)
class Request:
    """The body of a predict request."""

    signature: str  # empty for the default one
    rows: bool  # row format, not column format
    values: Any  # of `instances` or `inputs`

    @classmethod
    def from_json(cls, body: bytes) -> Request:
        """Parses a body. Raises ServingError if it is not a predict request."""
        document, signature = _document(body)
        keys = [key for key in (ROW_KEY, COLUMN_KEY) if key in document]
        if not keys:
            raise ServingError(f"Missing '{COLUMN_KEY}' or '{ROW_KEY}' key")
        if len(keys) == 2:
            raise ServingError(f"expected only one of '{COLUMN_KEY}' and '{ROW_KEY}'. Received: both")
        values = document[keys[0]]
        if keys[0] == ROW_KEY and (not isinstance(values, list) or not values):
            raise ServingError(f"'{ROW_KEY}' must be a list of at least one element. Received: {_excerpt(values)}")
        check_rows(len(values) if keys[0] == ROW_KEY else 0)
        return cls(signature, keys[0] == ROW_KEY, values)

    def arrays(self, specs: Specs) -> dict[str, np.ndarray]:
        """Returns the inputs of a signature. Raises ServingError for wrong names or dtypes, or ragged lists."""
        if self.rows:
            named = [self._inputs_by_name(row, specs) for row in self.values]
            columns = {name: [row[name] for row in named] for name in specs}
        else:
            columns = self._inputs_by_name(self.values, specs)
        return {name: _array(columns[name], spec, name) for name, spec in specs.items()}

    def _inputs_by_name(self, value: Any, specs: Specs) -> dict[str, Any]:
        if isinstance(value, dict) and not _is_bytes(value):
            check_names(value.keys(), specs.keys())
            return value
        if len(specs) > 1:
            expected = f"expected an object of the inputs {', '.join(sorted(specs))}"
            raise ServingError(f"{expected}. Received: {_excerpt(value)}")
        return dict.fromkeys(specs, value)


def answer_json(outputs: Mapping[str, np.ndarray], *, rows: bool) -> bytes:
    """Returns the response to a predict request, in row or column format.

    A single output is written as bare values, several outputs as objects. NaN and infinities are written as `NaN`,
    `Infinity` and `-Infinity`, as in TF Serving. Invalid UTF-8 in strings is replaced. Raises ServingError in row
    format if the outputs have different batch sizes.
    """
    names = sorted(outputs)
    if not rows:
        columns = {name: _array_json(outputs[name]) for name in names}
        return f'{{"outputs": {_bare_json(columns)}}}'.encode()
    sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise ServingError(f"outputs with inconsistent batch sizes; use '{COLUMN_KEY}'. Received: {sizes}")
    batch = next(iter(sizes.values())) or 0
    predictions = [
        _bare_json({name: _array_json(outputs[name][row : row + 1])[1:-1] for name in names}) for row in range(batch)
    ]
    return f'{{"predictions": [{", ".join(predictions)}]}}'.encode()


def _bare_json(values: dict[str, str]) -> str:
    """Returns the JSON of a single value, or of an object with several; the values are JSON already."""
    if len(values) == 1:
        return next(iter(values.values()))
    return f"{{{', '.join(f'{json.dumps(name)}: {value}' for name, value in values.items())}}}"


def _array_json(array: np.ndarray) -> str:
    """Returns the JSON of an array, converted in parts, because no other thread runs during a conversion."""
    if array.size <= _PART_VALUES or array.ndim < 2:
        return json.dumps(nested_lists(array))
    return f"[{', '.join(map(_array_json, array))}]"


def examples_of(body: bytes) -> tuple[str, input_pb2.Input]:
    """Returns the signature, empty for the default one, and the examples of a classify or regress request."""
    document, signature = _document(body)
    rows = document.get(EXAMPLES_KEY)
    if not isinstance(rows, list) or not rows:
        raise ServingError(f"'{EXAMPLES_KEY}' must be a list of at least one element. Received: {_excerpt(rows)}")
    check_rows(len(rows))
    message = input_pb2.Input()
    example_list: Any = message.example_list
    if CONTEXT_KEY in document:
        example_list = message.example_list_with_context
        _add_features(document[CONTEXT_KEY], example_list.context)
    for row in rows:
        _add_features(row, example_list.examples.add())
    return signature, message


def results_json(result: classification_pb2.ClassificationResult | regression_pb2.RegressionResult) -> bytes:
    """Returns the response to a classify request (`[label, score]` for each class of each row) or regress request."""
    if isinstance(result, regression_pb2.RegressionResult):
        results: list[Any] = [float32_digits(one.value) for one in result.regressions]
    else:
        results = [[[one.label, float32_digits(one.score)] for one in row.classes] for row in result.classifications]
    return json.dumps({RESULTS_KEY: results}).encode()


def _document(body: bytes) -> tuple[dict[str, Any], str]:
    """Parses a body as a JSON object; returns it with its signature name."""
    if (marks := sum(map(body.count, _MARKS))) > _MAX_MARKS:
        raise ServingError(f"a request must have at most {_MAX_MARKS} commas and opening brackets. Received: {marks}")
    if (keys := body.count(_KEY_MARK)) > _MAX_KEYS:
        raise ServingError(f"a request must have at most {_MAX_KEYS} colons. Received: {keys}")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServingError(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise ServingError(f"expected a JSON object. Received: {_excerpt(document)}")
    signature = document.get(SIGNATURE_KEY)
    if signature is None:
        # Some clients send `null` for the default signature.
        signature = ""
    if not isinstance(signature, str):
        raise ServingError(f"'{SIGNATURE_KEY}' must be a string. Received: {_excerpt(signature)}")
    return document, signature


def _add_features(row: Any, example: Any) -> None:
    """Adds the fields of a JSON object to a tf.Example: strings, integers or floats, single values or lists."""
    if not isinstance(row, dict):
        raise ServingError(f"Example must be JSON object but got {_excerpt(row)}")
    if len(row) > _MAX_FEATURES:
        raise ServingError(f"an example must have at most {_MAX_FEATURES} features. Received: {len(row)}")
    for name, content in row.items():
        values = content if isinstance(content, list) else [content]
        kinds = {_kind(value, name) for value in values}
        if len(kinds) > 1:
            raise ServingError(f"Unexpected element type in feature: {name}. Received: {', '.join(sorted(kinds))}")
        try:
            feature = example.features.feature[name]
        except UnicodeEncodeError as error:
            raise ServingError(f"feature name {_excerpt(name)}: half of a surrogate pair") from error
        for kind in kinds:
            converted = [_bytes(value, name) for value in values] if kind == "bytes_list" else values
            getattr(feature, kind).value.extend(converted)


def _kind(value: Any, name: str) -> str:
    """Returns the field of a feature for the type of a value."""
    if isinstance(value, str) or _is_bytes(value):
        return "bytes_list"
    if type(value) is int and _INT64.min <= value <= _INT64.max:
        return "int64_list"
    if type(value) is float:
        return "float_list"
    raise ServingError(f"Feature: {name} has element with unexpected JSON type. Received: {_excerpt(value)}")


def _array(value: Any, spec: tf.TensorSpec, name: str) -> np.ndarray:
    if spec.dtype not in (tf.string, tf.int32):
        raise ServingError(f"input {name}: no way from JSON to {spec.dtype.name}", grpc.StatusCode.UNIMPLEMENTED)
    convert = _bytes if spec.dtype == tf.string else _int32
    leaves: list[Any] = []
    shape = _shape(value)
    check_rank(len(shape), name)
    check_rows(*shape[:1])
    _flatten(value, shape, lambda leaf: leaves.append(convert(leaf, name)), name)
    array = np.empty(len(leaves), object if spec.dtype == tf.string else np.int32)
    array[:] = leaves
    return array.reshape(shape)


def _shape(value: Any) -> tuple[int, ...]:
    """Returns the lengths of nested lists, up to one dimension more than the maximum rank."""
    shape: list[int] = []
    while isinstance(value, list) and len(shape) <= MAX_RANK:
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
        raise ServingError(f"input {name}: rows of unequal shape: expected {size}. Received: {_excerpt(value)}")
    for item in value:
        _flatten(item, shape[1:], take, name)


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ServingError(f"input {name}: half of a surrogate pair in {_excerpt(value)}") from error
    if not _is_bytes(value):
        raise ServingError(f"input {name}: expected a string. Received: {_excerpt(value)}")
    try:
        encoded = value[BYTES_KEY]
        # TF Serving also accepts base64 without padding.
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ServingError(f"input {name}: not base64: {error}. Received: {_excerpt(value)}") from error


def _int32(value: Any, name: str) -> int:
    if type(value) is not int or not _INT32.min <= value <= _INT32.max:
        raise ServingError(f"input {name}: expected an int32. Received: {_excerpt(value)}")
    return value


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {BYTES_KEY} and isinstance(value[BYTES_KEY], str)


def _excerpt(value: Any) -> str:
    # Slices first, so that a large value is not rendered in full.
    try:
        text = repr(value[:_SHOWN] if isinstance(value, str | list) else value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
