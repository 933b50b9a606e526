"""Decodes serialized `tf.train.Example`s without TensorFlow.

Records in the encoding of `example_codec`, which is also TensorFlow's, are decoded together in numpy: features are
located record by record, their values are decoded at once. Any other encoding that the format allows is read by
protobuf.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from bert_tf.data.tfrecord.example_codec import (
    ENTRY,
    FEATURES,
    FLOAT_LIST,
    INT64_LIST,
    KEY,
    VALUE,
    VALUES,
    RecordColumn,
)

# Maximum size of a varint, in bytes.
_LONGEST = 10
# The messages of TensorFlow's `example.proto` and `feature.proto`, without lists of bytes: fields by number; `*` marks
# a repeated field.
_PROTO: dict[str, dict[int, tuple[str, str]]] = {
    "Example": {1: ("features", "Features")},
    "Features": {1: ("entry", "Entry*")},
    "Entry": {1: ("key", "string"), 2: ("value", "Feature")},
    "Feature": {2: ("float_list", "FloatList"), 3: ("int64_list", "Int64List")},
    "FloatList": {1: ("value", "float*")},
    "Int64List": {1: ("value", "int64*")},
}


def decode_examples(records: Sequence[bytes], names: Sequence[str]) -> dict[str, RecordColumn]:
    """Decodes the features `names`, which every record must have, as columns of int64 or float32 values.

    Raises ValueError if a record is not an Example of numbers, or lacks a feature or its values.
    """
    try:
        return _decode_packed(records, names)
    except (IndexError, _OtherEncodingError):
        return _decode_each(records, names)


class _OtherEncodingError(Exception):
    """Raised for an encoding other than that of `example_codec`."""


def _decode_packed(records: Sequence[bytes], names: Sequence[str]) -> dict[str, RecordColumn]:
    kinds: dict[bytes, int] = {}
    contents: dict[bytes, list[bytes]] = {name.encode(): [] for name in names}
    for number, record in enumerate(records, start=1):
        _find_lists(record, contents, kinds)
        if any(len(values) != number for values in contents.values()):
            raise _OtherEncodingError
    return {name: _column(contents[name.encode()], kinds.get(name.encode(), INT64_LIST)) for name in names}


def _find_lists(record: bytes, contents: dict[bytes, list[bytes]], kinds: dict[bytes, int]) -> None:
    """Appends the packed values of a record's features to `contents`, by name."""
    stop, at = _size(record, 0, FEATURES)
    if stop != len(record):
        raise _OtherEncodingError
    while at < stop:
        entry_stop, at = _size(record, at, ENTRY)
        key_stop, at = _size(record, at, KEY)
        name = record[at:key_stop]
        value_stop, at = _size(record, key_stop, VALUE)
        kind = record[at]
        list_stop, at = _size(record, at, kind)
        values_stop, at = _size(record, at, VALUES)
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


def _column(contents: Sequence[bytes], kind: int) -> RecordColumn:
    sizes = np.array([len(content) for content in contents], np.int64)
    data = np.frombuffer(b"".join(contents), np.uint8)
    if kind == FLOAT_LIST:
        if (sizes % 4).any():
            raise _OtherEncodingError
        return RecordColumn(data.view("<f4"), sizes // 4)
    if kind != INT64_LIST:
        raise _OtherEncodingError
    is_last = data < 0x80
    ends = np.cumsum(sizes)
    if not is_last[ends - 1].all():
        raise _OtherEncodingError
    return RecordColumn(_varints(data, is_last), np.diff(np.cumsum(is_last)[ends - 1], prepend=0))


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


def decode_example(record: bytes, where: str = "record") -> dict[str, np.ndarray]:
    """Decodes a serialized Example in any encoding: features by name, int64 [n] or float32 [n].

    Raises ValueError, which begins with `where`, if `record` is not an Example of integers and floats.
    """
    decoded = {}
    try:
        for entry in _example_class().FromString(record).features.entry:
            kinds = [kind for kind in ("int64_list", "float_list") if entry.value.HasField(kind)]
            if not kinds:
                raise ValueError("a feature must hold integers or floats.")
            dtype = np.int64 if kinds[0] == "int64_list" else np.float32
            decoded[entry.key] = np.array(getattr(entry.value, kinds[0]).value, dtype)
    except (DecodeError, ValueError) as error:
        raise ValueError(f"{where}: is not a tf.train.Example of numbers: {error}") from error
    return decoded


def _decode_each(records: Sequence[bytes], names: Sequence[str]) -> dict[str, RecordColumn]:
    decoded = [decode_example(record) for record in records]
    columns = {}
    for name in names:
        if any(name not in features for features in decoded):
            raise ValueError(f"a record lacks the feature `{name}`. Received: {', '.join(decoded[0])}")
        arrays = [features[name] for features in decoded]
        columns[name] = RecordColumn(np.concatenate(arrays), np.array([len(array) for array in arrays], np.int64))
    return columns


@functools.cache
def _example_class() -> Any:
    """Returns the message class of Example."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="bert_tf", syntax="proto3")
    types = descriptor_pb2.FieldDescriptorProto
    for name, fields in _PROTO.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in fields.items():
            field = message.field.add(name=field_name, number=number)
            field.label = types.LABEL_REPEATED if kind.endswith("*") else types.LABEL_OPTIONAL
            if (kind := kind.removesuffix("*")) in _PROTO:
                field.type, field.type_name = types.TYPE_MESSAGE, f".bert_tf.{kind}"
            else:
                field.type = getattr(types, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bert_tf.Example"))
