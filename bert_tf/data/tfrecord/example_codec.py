"""Serializes many `tf.train.Example` protocol buffers at once, in numpy.

The bytes equal `tf.train.Example(...).SerializeToString(deterministic=True)`: packed values, features sorted by name
(the wire format: https://protobuf.dev/programming-guides/encoding/; the messages: TensorFlow's `example.proto` and
`feature.proto`). One Python message object per record would take ten times as long.

The values of a feature are encoded for all records at once and then split into records. The header in front of the
values depends only on their size and is cached by size.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Field tags: number << 3 | 2 (length-delimited).
FEATURES = ENTRY = KEY = VALUES = 0x0A
VALUE = 0x12
FLOAT_LIST, INT64_LIST = 0x12, 0x1A


@dataclass(frozen=True)
class RecordColumn:
    """One feature of n records."""

    values: np.ndarray  # non-negative integers or float32 [T], concatenated values of all records
    counts: np.ndarray  # int64 [n], number of values in each record, all >= 1, sum T


def encode_examples(columns: Mapping[str, RecordColumn]) -> list[bytes]:
    """Serializes n records. Raises ValueError if a value is negative or a record has no values."""
    parts = [part for name in sorted(columns) for part in _entries(name, columns[name])]
    features = map(b"".join, zip(*parts, strict=True))
    return [_header(FEATURES, len(body)) + body for body in features]


def _entries(name: str, column: RecordColumn) -> tuple[list[bytes], list[bytes]]:
    """Returns the headers and the encoded values of a feature, one pair per record."""
    values, counts = column.values, column.counts
    if len(counts) and counts.min() < 1:
        raise ValueError(f"feature `{name}`: every record must have a value. Received: {counts.min()} values")
    if values.dtype.kind == "f":
        list_tag, data, sizes = FLOAT_LIST, values.astype("<f4").tobytes(), 4 * counts
    else:
        if len(values) and values.min() < 0:
            raise ValueError(f"feature `{name}`: values must not be negative. Received: {values.min()}")
        list_tag = INT64_LIST
        data, sizes = _packed(values, counts)
    stops = np.cumsum(sizes).tolist()
    payloads = [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)] if stops else []
    return [_before(name, list_tag, size) for size in sizes.tolist()], payloads


def _packed(values: np.ndarray, counts: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encodes non-negative `values` as varints; returns the bytes and the size of each record: int64 [n]."""
    largest = int(values.max(initial=0))
    slots = max(1, -(-largest.bit_length() // 7))
    if slots == 1:
        return values.astype(np.uint8).tobytes(), counts
    values = values.astype(np.min_scalar_type(largest))
    data, used = np.empty((len(values), slots), np.uint8), np.empty((len(values), slots), bool)
    used[:, 0] = True
    for slot in range(slots - 1):
        low = values.astype(np.uint8) & 0x7F
        values = values >> 7
        more = values > 0
        data[:, slot] = low | more.view(np.uint8) << 7
        used[:, slot + 1] = more
    data[:, -1] = values
    in_use = used.reshape(-1)
    sizes = np.add.reduceat(in_use.view(np.uint8), slots * (np.cumsum(counts) - counts), dtype=np.uint32)
    # `compress` is much faster than data[used].
    return np.compress(in_use, data.reshape(-1)).tobytes(), sizes


@functools.lru_cache(maxsize=1 << 16)
def _before(name: str, list_tag: int, size: int) -> bytes:
    """Returns the header of `size` bytes of values in an entry of the feature map."""
    values = _header(VALUES, size)
    numbers = _header(list_tag, len(values) + size) + values
    feature = _header(VALUE, len(numbers) + size) + numbers
    key = _header(KEY, len(name.encode())) + name.encode()
    return _header(ENTRY, len(key) + len(feature) + size) + key + feature


@functools.lru_cache(maxsize=1 << 16)
def _header(tag: int, length: int) -> bytes:
    """Returns a tag and the varint length of the content that follows."""
    encoded = bytearray([tag])
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
