"""Decodes many serialized `tf.train.Example`s at once, in numpy: the inverse of `example_codec.encode_examples`.

Features are located record by record; the values of all records are decoded together. The format allows other
encodings than those of `example_codec` and TensorFlow; these are decoded by `example_reader`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_tf.data.tfrecord.example_codec import Column
from bert_tf.data.tfrecord.example_reader import decode_example

_FEATURES = _ENTRY = _KEY = _VALUES = 0x0A
_VALUE = 0x12
_FLOAT_LIST, _INT64_LIST = 0x12, 0x1A
# Maximum size of a varint, in bytes.
_LONGEST = 10


def decode_examples(records: Sequence[bytes], names: Sequence[str]) -> dict[str, Column]:
    """Decodes the features `names` of records.

    Args:
        records: n serialized Examples.
        names: features to decode; every record must have them.

    Returns:
        Columns of int64 or float32 values.

    Raises:
        ValueError: if a record is not an Example of numbers, or lacks a feature or its values.
    """
    try:
        return _decode_packed(records, names)
    except (IndexError, _OtherEncodingError):
        return _decode_any(records, names)


class _OtherEncodingError(Exception):
    """Raised for an encoding other than that of `example_codec`."""


def _decode_packed(records: Sequence[bytes], names: Sequence[str]) -> dict[str, Column]:
    kinds: dict[bytes, int] = {}
    contents: dict[bytes, list[bytes]] = {name.encode(): [] for name in names}
    for number, record in enumerate(records, start=1):
        _find_lists(record, contents, kinds)
        if any(len(values) != number for values in contents.values()):
            raise _OtherEncodingError
    return {name: _column(contents[name.encode()], kinds.get(name.encode(), _INT64_LIST)) for name in names}


def _find_lists(record: bytes, contents: dict[bytes, list[bytes]], kinds: dict[bytes, int]) -> None:
    """Appends the packed values of a record's features to `contents`, by name."""
    stop, at = _size(record, 0, _FEATURES)
    if stop != len(record):
        raise _OtherEncodingError
    while at < stop:
        entry_stop, at = _size(record, at, _ENTRY)
        key_stop, at = _size(record, at, _KEY)
        name = record[at:key_stop]
        value_stop, at = _size(record, key_stop, _VALUE)
        kind = record[at]
        list_stop, at = _size(record, at, kind)
        values_stop, at = _size(record, at, _VALUES)
        if not at < values_stop == list_stop == value_stop == entry_stop <= stop:
            raise _OtherEncodingError
        if name in contents:
            if kinds.setdefault(name, kind) != kind:
                raise _OtherEncodingError
            contents[name].append(record[at:values_stop])
        at = entry_stop


def _size(record: bytes, at: int, tag: int) -> tuple[int, int]:
    """Returns the end and the start of the content of the field with `tag` at offset `at`."""
    if record[at] != tag:
        raise _OtherEncodingError
    size, shift, at = record[at + 1] & 0x7F, 7, at + 2
    while record[at - 1] > 0x7F:
        size |= (record[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return at + size, at


def _column(contents: Sequence[bytes], kind: int) -> Column:
    sizes = np.array([len(content) for content in contents], np.int64)
    data = np.frombuffer(b"".join(contents), np.uint8)
    if kind == _FLOAT_LIST:
        if (sizes % 4).any():
            raise _OtherEncodingError
        return Column(data.view("<f4"), sizes // 4)
    if kind != _INT64_LIST:
        raise _OtherEncodingError
    is_last = data < 0x80
    ends = np.cumsum(sizes)
    if not is_last[ends - 1].all():
        raise _OtherEncodingError
    return Column(_varints(data, is_last), np.diff(np.cumsum(is_last)[ends - 1], prepend=0))


def _varints(data: np.ndarray, is_last: np.ndarray) -> np.ndarray:
    """Decodes concatenated varints: int64."""
    stops = np.flatnonzero(is_last) + 1
    starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    sizes = stops - starts
    if sizes.max(initial=1) > _LONGEST:
        raise _OtherEncodingError
    values = (data[starts] & 0x7F).astype(np.int64)
    for byte in range(1, int(sizes.max(initial=1))):
        longer = np.flatnonzero(sizes > byte)
        values[longer] |= (data[starts[longer] + byte] & 0x7F).astype(np.int64) << 7 * byte
    return values


def _decode_any(records: Sequence[bytes], names: Sequence[str]) -> dict[str, Column]:
    decoded = [decode_example(record) for record in records]
    columns = {}
    for name in names:
        if any(name not in features for features in decoded):
            raise ValueError(f"a record lacks the feature `{name}`. Received: {', '.join(decoded[0])}")
        arrays = [features[name] for features in decoded]
        columns[name] = Column(np.concatenate(arrays), np.array([len(array) for array in arrays], np.int64))
    return columns
