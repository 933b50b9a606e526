from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving.errors import ServingError
from bert_tf.serving.http.json_bodies import Request, answer_json

TEXT = {"text": tf.TensorSpec([None], tf.string)}
PAIR = {"text": tf.TensorSpec([None], tf.string), "text_pair": tf.TensorSpec([None], tf.string)}
IDS = {"ids": tf.TensorSpec([None, None], tf.int32), "mask": tf.TensorSpec([None, None], tf.int32)}
E_ACUTE = "é".encode()


@pytest.mark.parametrize(
    ("body", "specs", "expected"),
    [
        ({"instances": ["a", "é"]}, TEXT, {"text": [b"a", E_ACUTE]}),
        ({"instances": [{"b64": "/w=="}, "a"]}, TEXT, {"text": [b"\xff", b"a"]}),
        ({"instances": [{"b64": "/w"}, {"b64": "YWI"}]}, TEXT, {"text": [b"\xff", b"ab"]}),
        ({"instances": [{"text": "a"}, {"text": {"b64": "Yg=="}}]}, TEXT, {"text": [b"a", b"b"]}),
        ({"instances": [{"text": "a", "text_pair": "b"}]}, PAIR, {"text": [b"a"], "text_pair": [b"b"]}),
        ({"inputs": ["a"]}, TEXT, {"text": [b"a"]}),
        ({"inputs": []}, TEXT, {"text": []}),
        ({"inputs": {"b64": "YQ=="}}, TEXT, {"text": b"a"}),
        ({"inputs": {"text": ["a"], "text_pair": ["b"]}}, PAIR, {"text": [b"a"], "text_pair": [b"b"]}),
        ({"instances": [{"ids": [1, 2], "mask": [1, 0]}]}, IDS, {"ids": [[1, 2]], "mask": [[1, 0]]}),
        ({"inputs": {"ids": [[1], [-2]], "mask": [[], []]}}, IDS, {"ids": [[1], [-2]], "mask": [[], []]}),
        ({"inputs": [[["a"]]]}, TEXT, {"text": [[[b"a"]]]}),
    ],
)
def test_bodies_become_arrays(body: Any, specs: Any, expected: dict[str, Any]) -> None:
    arrays = Request.from_json(json.dumps(body).encode()).arrays(specs)
    assert {name: array.tolist() for name, array in arrays.items()} == expected
    for name, array in arrays.items():
        assert array.dtype == (object if specs[name].dtype == tf.string else np.int32)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error"),
        (b"{", "JSON Parse error"),
        (b"\xff\xfe{}", "JSON Parse error"),
        (b"[" * 100000, "JSON Parse error"),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "JSON Parse error"),
        (b"[1]", "expected a JSON object. Received: [1]"),
        (b'{"instances": [' + b"0," * 2**20 + b"0]}", "at most 1048576 commas and opening brackets. Received: 1048578"),
        (b'{"inputs": {' + b'"a":0,' * 2**18 + b'"b":0}}', "at most 262144 colons. Received: 262146"),
        (b'{"instances": [' + b"[]," * 128 + b"[]]}", "a request must have at most 128 rows. Received: 129"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (b'{"instances": ["a"], "inputs": ["a"]}', "expected only one of"),
        (b'{"instances": []}', "'instances' must be a list of at least one element. Received: []"),
        (b'{"instances": "a"}', "'instances' must be a list"),
        (b'{"instances": ["a"], "signature_name": 3}', "'signature_name' must be a string. Received: 3"),
    ],
)
def test_invalid_bodies_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(ServingError, match=re.escape(message)) as error:
        Request.from_json(body)
    assert error.value.http_status == 400


@pytest.mark.parametrize(
    ("body", "specs", "message"),
    [
        ({"instances": [1]}, TEXT, "input text: expected a string. Received: 1"),
        ({"instances": [None]}, TEXT, "Received: None"),
        ({"instances": ["\ud800"]}, TEXT, "half of a surrogate pair"),
        ({"instances": [{"b64": "%%"}]}, TEXT, "input text: not base64"),
        ({"instances": ["a", ["b"]]}, TEXT, "rows of unequal shape"),
        ({"instances": [["a"], "b"]}, TEXT, "rows of unequal shape"),
        ({"instances": [{"txt": "a"}]}, TEXT, "Sent extra: {txt}. Missing but required: {text}."),
        ({"instances": ["a"]}, PAIR, "expected an object of the inputs text, text_pair. Received: 'a'"),
        ({"inputs": {"text": ["a"]}}, PAIR, "input size does not match signature: 1!=2 len({text}) != "),
        ({"inputs": {"text": ["a"], "x": 1}}, TEXT, "Sent extra: {x}. Missing but required: {}."),
        ({"inputs": {"ids": [[1.0]], "mask": [[1]]}}, IDS, "input ids: expected an int32. Received: 1.0"),
        ({"inputs": {"ids": [[True]], "mask": [[1]]}}, IDS, "Received: True"),
        ({"inputs": {"ids": [[2**31]], "mask": [[1]]}}, IDS, "Received: 2147483648"),
        ({"inputs": {"ids": [[1, 2], [3]], "mask": [[1]]}}, IDS, "input ids: rows of unequal shape"),
        ({"inputs": {"ids": [["1"]], "mask": [[1]]}}, IDS, "Received: '1'"),
        ({"inputs": ["a"] * 129}, TEXT, "a request must have at most 128 rows. Received: 129"),
        ({"inputs": "x" * 5000 + "\ud800"}, TEXT, "…"),
    ],
)
def test_values_of_other_types_or_shapes_are_refused(body: Any, specs: Any, message: str) -> None:
    request = Request.from_json(json.dumps(body).encode())
    with pytest.raises(ServingError, match=re.escape(message)) as error:
        request.arrays(specs)
    assert error.value.http_status == 400
    assert len(str(error.value)) < 400


def test_type_without_json_representation_is_not_implemented() -> None:
    request = Request.from_json(b'{"inputs": [1.5]}')
    with pytest.raises(ServingError, match="float16") as error:
        request.arrays({"x": tf.TensorSpec([None], tf.float16)})
    assert error.value.http_status == 501


ONE = {"p": np.float32([[0.1, 0.2], [1, 0.3]])}
TWO = {"label": np.array([b"a", E_ACUTE], object), "p": np.float32([0.1, 2])}


@pytest.mark.parametrize(
    ("outputs", "rows", "expected"),
    [
        (ONE, True, {"predictions": [[0.1, 0.2], [1.0, 0.3]]}),
        (ONE, False, {"outputs": [[0.1, 0.2], [1.0, 0.3]]}),
        (TWO, True, {"predictions": [{"label": "a", "p": 0.1}, {"label": "é", "p": 2.0}]}),
        (TWO, False, {"outputs": {"label": ["a", "é"], "p": [0.1, 2.0]}}),
        ({"x": np.zeros((0, 2), np.float32)}, True, {"predictions": []}),
        ({"n": np.int32(3)}, False, {"outputs": 3}),
    ],
)
def test_arrays_become_responses(outputs: dict[str, np.ndarray], rows: bool, expected: Any) -> None:
    assert json.loads(answer_json(outputs, rows=rows)) == expected


def test_floats_are_exact_with_the_fewest_digits() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    body = answer_json({"x": values}, rows=True)
    assert (np.float32(json.loads(body)["predictions"]) == values).all()
    assert answer_json({"x": np.float32([0.1])}, rows=True) == b'{"predictions": [0.1]}'
    special = answer_json({"x": np.float32([np.nan, np.inf, -np.inf])}, rows=True)
    assert special == b'{"predictions": [NaN, Infinity, -Infinity]}'


@pytest.mark.parametrize("second", [np.zeros(3), np.float32(1)])
def test_rows_need_one_batch_size(second: np.ndarray) -> None:
    with pytest.raises(ServingError, match="inconsistent batch sizes"):
        answer_json({"a": np.zeros(2), "b": second}, rows=True)
