"""Serializes many `tf.train.Example` protocol buffers at once, in numpy.

The bytes are those of `tf.train.Example(...).SerializeToString(deterministic=True)`: packed values, features
sorted by name (the wire format: https://protobuf.dev/programming-guides/encoding/; the messages: TensorFlow's
`example.proto` and `feature.proto`). Message objects of Python, one a record, would take ten times as long.

Records are laid out as the rows of one byte matrix in which every part has as much room as the longest needs, with
a second matrix that tells the bytes in use; picking these gives all records, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Field tags: number << 3 | 2 (length-delimited).
_FEATURES = _ENTRY = _KEY = _VALUES = 0x0A
_VALUE = 0x12
_LISTS = {"f": 0x12, "i": 0x1A}  # Feature.float_list, Feature.int64_list


# Bytes (n, w) and which of them are used, of the same shape or one that broadcasts.
_Block = tuple[np.ndarray, np.ndarray]
_USED = np.ones((1, 1), bool)


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
    blocks: list[_Block] = []
    body = np.zeros(1, np.int64)
    for name in sorted(columns):
        entry, sizes = _entry(name, columns[name])
        blocks += entry
        body = body + sizes
    blocks = [*_header(_FEATURES, body), *blocks]
    rows = len(body)
    widths = [block.shape[1] for block, _ in blocks]
    matrix, used = np.empty((rows, sum(widths)), np.uint8), np.empty((rows, sum(widths)), bool)
    right = 0
    for (block, in_use), width in zip(blocks, widths, strict=True):
        left, right = right, right + width
        matrix[:, left:right], used[:, left:right] = block, in_use
    data = matrix[used].tobytes()
    stops = np.cumsum(np.count_nonzero(used, axis=1)).tolist()
    return [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)] if stops else []


def _entry(name: str, column: Column) -> tuple[list[_Block], np.ndarray]:
    """Returns one entry of the map of features, and its size in every record: int64 [n]."""
    values, counts = column.values, column.counts
    if len(counts) and counts.min() < 1:
        raise ValueError(f"feature `{name}`: every record needs a value. Received: {counts.min()} values")
    floats = values.dtype.kind == "f"
    if not floats and len(values) and values.min() < 0:
        raise ValueError(f"feature `{name}`: values must not be negative. Received: {values.min()}")
    matrix, there = _padded(values, counts)
    if floats:
        payload = np.ascontiguousarray(matrix, "<f4").view(np.uint8), np.repeat(there, 4, axis=1)
        sizes = 4 * counts
    else:
        payload = _varints(matrix, there)
        sizes = np.count_nonzero(payload[1], axis=1)
    encoded = np.frombuffer(name.encode(), np.uint8)[None]
    key = [*_header(_KEY, np.array([encoded.shape[1]])), (encoded, _USED)]
    blocks: list[_Block] = [payload]
    for tag in (_VALUES, _LISTS["f" if floats else "i"], _VALUE):
        header = _header(tag, sizes)
        blocks = [*header, *blocks]
        sizes = sizes + _sizes(header)
    sizes = sizes + _sizes(key)
    header = _header(_ENTRY, sizes)
    return [*header, *key, *blocks], sizes + _sizes(header)


def _padded(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of each record as a row, and which of them are there: bool of the same shape."""
    width = int(counts.max(initial=0))
    if len(values) == len(counts) * width:
        return values.reshape(len(counts), width), np.ones((len(counts), width), bool)
    there = np.arange(width) < counts[:, None]
    matrix = np.zeros(there.shape, values.dtype)
    matrix[there] = values
    return matrix, there


def _varints(values: np.ndarray, there: np.ndarray) -> _Block:
    """Returns `values` (n, w), none negative, as varints side by side, where they are `there`."""
    largest = int(values.max(initial=0))
    slots = max(1, -(-largest.bit_length() // 7))
    if slots == 1:
        return values.astype(np.uint8), there
    values = values.astype(np.uint32 if largest < 1 << 32 else np.uint64)
    data, used = np.empty((*values.shape, slots), np.uint8), np.empty((*values.shape, slots), bool)
    used[..., 0] = there
    for slot in range(slots):
        data[..., slot] = values & 0x7F
        values = values >> 7
        if slot + 1 < slots:
            more = values > 0
            data[..., slot] |= more.view(np.uint8) << 7
            used[..., slot + 1] = more & there
    return data.reshape(len(values), -1), used.reshape(len(values), -1)


def _header(tag: int, lengths: np.ndarray) -> list[_Block]:
    """Returns a tag and the length of what follows it, `lengths` (n,)."""
    return [(np.array([[tag]], np.uint8), _USED), _varints(lengths[:, None], np.ones((len(lengths), 1), bool))]


def _sizes(blocks: list[_Block]) -> np.ndarray:
    """Returns the bytes in use in each row of `blocks`, which may have one row for all."""
    sizes = np.zeros(1, np.int64)
    for block, used in blocks:
        sizes = sizes + np.count_nonzero(np.broadcast_to(used, (len(used), block.shape[1])), axis=1)
    return sizes
