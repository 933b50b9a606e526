"""Decodes a serialized `tf.train.Example` in plain Python; slow, meant for a few records.

Unlike `example_columns` it supports every encoding that the format allows, packed or not, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Wire types of https://protobuf.dev/programming-guides/encoding/.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Fields of Feature by number (TensorFlow's `feature.proto`).
_FLOATS, _INTEGERS = 2, 3


def decode_example(record: bytes, where: str = "record") -> dict[str, np.ndarray]:
    """Decodes a serialized Example.

    Args:
        record: serialized Example whose features are lists of integers or floats.
        where: source of the record, for errors.

    Returns:
        Features by name: int64 [n] or float32 [n].

    Raises:
        ValueError: if `record` is not such an Example.
    """
    try:
        entries = [entry for features in _fields(record, 1) for entry in _fields(features, 1)]
        pairs = [(_last(entry, 1).decode(), _values(_last(entry, 2))) for entry in entries]
    except (IndexError, ValueError) as error:
        raise ValueError(f"{where}: is not a tf.train.Example of numbers: {error}") from error
    return dict(pairs)


def _values(feature: bytes) -> np.ndarray:
    for number, dtype in ((_INTEGERS, np.int64), (_FLOATS, np.float32)):
        lists = _fields(feature, number)
        if lists:
            return np.array([value for part in lists for value in _numbers(part, dtype)], dtype)
    raise ValueError("a feature must hold integers or floats.")


def _numbers(values: bytes, dtype: type) -> Iterator[int | float]:
    """Yields the values of an Int64List or FloatList."""
    for _, kind, content in _messages(values):
        if dtype is np.float32:
            yield from np.frombuffer(content, "<f4").tolist()
        elif kind == _VARINT:
            yield _signed(_varint(content, 0)[0])
        else:
            at = 0
            while at < len(content):
                value, at = _varint(content, at)
                yield _signed(value)


def _last(message: bytes, number: int) -> bytes:
    return _fields(message, number)[-1]


def _fields(message: bytes, number: int) -> list[bytes]:
    return [content for field, kind, content in _messages(message) if field == number and kind == _BYTES]


def _messages(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields field number, wire type and content of every field in a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        begin = at
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            size, begin = _varint(message, at)
            at = begin + size
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"wire type must be 0, 1, 2 or 5. Received: {kind}")
        if at > len(message):
            raise ValueError(f"a field must end within its message. Received: {len(message)} bytes of {at}")
        yield tag >> 3, kind, message[begin:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the varint at offset `at` and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
