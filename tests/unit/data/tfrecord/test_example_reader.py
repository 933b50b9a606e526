from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.tfrecord.example_codec import RecordColumn, encode_examples
from bert_tf.data.tfrecord.example_reader import decode_example

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9)


def same(decoded: dict[str, np.ndarray], expected: dict[str, list]) -> bool:
    return decoded.keys() == expected.keys() and all(decoded[name].tolist() == expected[name] for name in expected)


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=40), INTEGERS | FLOATS, max_size=5))
def test_records_of_tensorflow_are_read(features: dict[str, list]) -> None:
    def feature(values: list) -> tf.train.Feature:
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    message = tf.train.Example(features=tf.train.Features(feature={name: feature(v) for name, v in features.items()}))
    assert same(decode_example(message.SerializeToString()), features)


def test_own_records_are_read() -> None:
    columns = {
        "ids": RecordColumn(np.array([1, 300, 2**40, 0, 7]), np.array([3, 2])),
        "weights": RecordColumn(np.array([0.5, 1.0, 0.25], np.float32), np.array([1, 2])),
    }
    records = encode_examples(columns)
    assert same(decode_example(records[0]), {"ids": [1, 300, 2**40], "weights": [0.5]})
    assert same(decode_example(records[1]), {"ids": [0, 7], "weights": [1.0, 0.25]})
    assert decode_example(records[1])["weights"].dtype == np.float32


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (b"\x08\x05\x08\x96\x01", [5, 150]),  # a separate field for each value, as in unpacked encoding
        (b"\x0a\x01\x05\x08\x06", [5, 6]),
        (b"\x0a\x00", []),
        (b"", []),
    ],
)
def test_other_encodings_of_a_list_are_read(values: bytes, expected: list[int]) -> None:
    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    entry = message(1, b"x") + message(2, message(3, values))
    unknown_field = b"\x28\x01"
    assert same(decode_example(message(1, message(1, entry) + unknown_field)), {"x": expected})


def test_invalid_examples_are_refused() -> None:
    record = encode_examples({"ids": RecordColumn(np.arange(20), np.array([20]))})[0]
    assert list(decode_example(record)) == ["ids"]
    for damaged in (
        record[:-1],
        record[:5],
        b"\xff" * 9,
        b"\x0b\x01",
        record.replace(b"\x12\x18\x1a", b"\x12\x18\x0a"),
    ):
        with pytest.raises(ValueError, match="shard: record 3: is not a tf.train.Example of numbers"):
            decode_example(damaged, "shard: record 3")
