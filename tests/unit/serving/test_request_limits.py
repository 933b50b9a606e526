"""Limits of requests hold before memory and time are spent."""

from __future__ import annotations

import gzip
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import input_pb2

from bert_tf.serving.errors import ServingError
from bert_tf.serving.http.request_body import BodyLimits, decompressed
from bert_tf.serving.requests.admission import Admission
from bert_tf.serving.requests.cancellation import Cancellation
from bert_tf.serving.requests.examples import serialized_examples
from bert_tf.serving.requests.tensors import array_of

TEXT = tf.TensorSpec([None], tf.string)


def unzipped(body: bytes, cancellation: Cancellation | None = None) -> bytes:
    with Admission(2**24).request() as admitted:
        return decompressed(body, "gzip", admitted, BodyLimits(2**20), cancellation or Cancellation())


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8))
def test_members_are_joined(parts: list[bytes]) -> None:
    assert unzipped(b"".join(gzip.compress(part) for part in parts)) == b"".join(parts)


def test_long_members_are_joined() -> None:
    content = np.random.default_rng(1).bytes(300_000)
    assert unzipped(gzip.compress(content[:200_000]) + gzip.compress(content[200_000:])) == content


def test_too_many_members_are_refused() -> None:
    empty = gzip.compress(b"")
    assert unzipped(empty * 1023 + gzip.compress(b"a")) == b"a"
    with pytest.raises(ServingError, match="at most 1024 members"):
        unzipped(empty * 800_000)


def test_cancelled_request_is_not_decompressed() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(CancelledError):
        unzipped(gzip.compress(b"a"), cancellation)


def test_context_counts_for_each_example() -> None:
    message = input_pb2.Input()
    listed = message.example_list_with_context
    listed.context.features.feature["text"].bytes_list.value.append(b"x" * 1000)
    for _ in range(3):
        listed.examples.add()
    assert all(len(one) > 1000 for one in serialized_examples(message, 1000)["inputs"])
    listed.examples.add()
    with pytest.raises(ServingError, match="must have at most 4000 bytes"):
        serialized_examples(message, 1000)


def test_context_is_not_copied_before_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    message = input_pb2.Input()
    listed = message.example_list_with_context
    listed.context.features.feature["text"].bytes_list.value.append(b"x" * 10_000)
    for _ in range(128):
        listed.examples.add()
    made: list[Any] = []
    monkeypatch.setattr(np, "empty", lambda *args, **kwargs: made.append(args))
    with pytest.raises(ServingError):
        serialized_examples(message, 10_000)
    assert not made


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_strings_of_tensor_content(values: list[bytes]) -> None:
    proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum)
    proto.tensor_shape.dim.add(size=len(values))
    proto.tensor_content = b"".join(varint(len(value)) for value in values) + b"".join(values)
    assert array_of(proto, TEXT, "text").tolist() == values


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value % 128 + 128, value // 128])


@pytest.mark.parametrize("content", [b"\x02", b"\x02\x03abxyzw", b"\xff\xff\xff\xff\x7f", b"\x02\x03ab"])
def test_damaged_tensor_content_is_refused(content: bytes) -> None:
    proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, tensor_content=content)
    proto.tensor_shape.dim.add(size=2)
    with pytest.raises(ServingError, match="tensor parsing error: text: tensor_content must have the lengths"):
        array_of(proto, TEXT, "text")


def test_declared_strings_need_their_bytes() -> None:
    proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, tensor_content=b"\x00" * 100)
    for size in (100, 100_000):
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(ServingError):
        array_of(proto, tf.TensorSpec([None, None], tf.string), "text")


@pytest.mark.parametrize(
    ("dtype", "field", "value"),
    [(tf.int32, "int64_val", 1), (tf.int32, "float_val", 1.0), (tf.string, "int_val", 1), (tf.float32, "int_val", 2)],
)
def test_values_in_the_field_of_another_dtype_are_refused(dtype: tf.DType, field: str, value: Any) -> None:
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.dim.add(size=1)
    getattr(proto, field).append(value)
    with pytest.raises(ServingError, match=f"values must be in .*_val. Received: {field}"):
        array_of(proto, tf.TensorSpec([None], dtype), "ids")
