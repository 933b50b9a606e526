"""Serializes many `tf.train.Example` protocol buffers at once, in numpy.

The bytes are those of `tf.train.Example(...).SerializeToString(deterministic=True)`: packed values, features
sorted by name (the wire format: https://protobuf.dev/programming-guides/encoding/; the messages: TensorFlow's
`example.proto` and `feature.proto`). Message objects of Python, one a record, would take ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Field tags: number << 3 | 2 (length-delimited).
_FEATURES = _ENTRY = _KEY = _VALUES = 0x0A
_VALUE = 0x12
_LISTS = {"f": 0x12, "i": 0x1A}  # Feature.float_list, Feature.int64_list
_EDGES = 2 ** (7 * np.arange(1, 9, dtype=np.int64))


@dataclass(frozen=True)
class Column:
    """One feature of n records.

    Args:
        values: int64 (none negative) or float32 [T], all records' values one after the other.
        counts: int64 [n], values in each record, all >= 1, of sum T.
    """

    values: np.ndarray
    counts: np.ndarray


def encode_examples(columns: Mapping[str, Column]) -> list[bytes]:
    """Serializes records.

    Args:
        columns: features by name, all of the same number of records.

    Returns:
        The n serialized Examples.

    Raises:
        ValueError: for a negative value or a record without a value.
    """
    parts = [_Part(name, columns[name]) for name in sorted(columns)]
    body = sum(1 + _varint_sizes(part.entry) + part.entry for part in parts)
    sizes = 1 + _varint_sizes(body) + body
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    cursor = _put_header(out, ends - sizes, _FEATURES, body)
    for part in parts:
        cursor = part.put(out, cursor)
    data = out.tobytes()
    stops = ends.tolist()
    return [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)] if stops else []


class _Part:
    """A map entry of every record: the sizes of its nested messages, and how to write them."""

    def __init__(self, name: str, column: Column) -> None:
        values, counts = column.values, column.counts
        if len(counts) and counts.min() < 1:
            raise ValueError(f"feature `{name}`: every record needs a value. Received: {counts.min()} values")
        encoded = np.frombuffer(name.encode(), np.uint8)
        head = np.empty(10, np.uint8)
        (size,) = _put_header(head, np.zeros(1, np.int64), _KEY, np.array([len(encoded)]))
        self.key = np.concatenate([head[:size], encoded])
        self.floats = values.dtype.kind == "f"
        if self.floats:
            self.raw = np.ascontiguousarray(values, "<f4").view(np.uint8)
            self.payload = 4 * counts
        else:
            if len(values) and values.min() < 0:
                raise ValueError(f"feature `{name}`: values must not be negative. Received: {values.min()}")
            self.values = values
            self.sizes = _varint_sizes(values)
            self.payload = np.add.reduceat(self.sizes, np.cumsum(counts) - counts) if len(counts) else counts
        self.counts = counts
        self.list = 1 + _varint_sizes(self.payload) + self.payload
        self.feature = 1 + _varint_sizes(self.list) + self.list
        self.entry = len(self.key) + 1 + _varint_sizes(self.feature) + self.feature

    def put(self, out: np.ndarray, cursor: np.ndarray) -> np.ndarray:
        """Writes the entry of record i at `cursor[i]`; returns where each ends."""
        cursor = _put_header(out, cursor, _ENTRY, self.entry)
        out[cursor[:, None] + np.arange(len(self.key))] = self.key
        cursor = _put_header(out, cursor + len(self.key), _VALUE, self.feature)
        cursor = _put_header(out, cursor, _LISTS["f" if self.floats else "i"], self.list)
        cursor = _put_header(out, cursor, _VALUES, self.payload)
        if self.floats:
            out[_spread(cursor, self.payload)] = self.raw
        else:
            within = np.cumsum(self.sizes) - self.sizes
            row_start = np.cumsum(self.payload) - self.payload
            _put_varints(out, within + np.repeat(cursor - row_start, self.counts), self.values, self.sizes)
        return cursor + self.payload


def _varint_sizes(values: np.ndarray) -> np.ndarray:
    sizes = np.ones(len(values), np.int64)
    largest = values.max(initial=0)
    for edge in _EDGES:
        if largest < edge:
            break
        sizes += values >= edge
    return sizes


def _put_varints(out: np.ndarray, positions: np.ndarray, values: np.ndarray, sizes: np.ndarray) -> None:
    for byte in range(int(sizes.max(initial=0))):
        if byte:
            there = sizes > byte
            positions, values, sizes = positions[there], values[there], sizes[there]
        more = (sizes > byte + 1).astype(np.uint8) << 7
        out[positions + byte] = (values >> (7 * byte)).astype(np.uint8) & 0x7F | more


def _put_header(out: np.ndarray, cursor: np.ndarray, tag: int, lengths: np.ndarray) -> np.ndarray:
    out[cursor] = tag
    sizes = _varint_sizes(lengths)
    _put_varints(out, cursor + 1, lengths, sizes)
    return cursor + 1 + sizes


def _spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    begins = np.cumsum(lengths) - lengths
    return np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum()))
