"""Tensors of gRPC messages: checked before anything is made of them, and written as TF Serving writes them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from bert_tf.serving.errors import ServingError

# A message of a few bytes may declare any shape.
MAX_VALUES = 2**22
# Memory follows rows, and one request of the largest size could hold millions of them.
MAX_ROWS = 128
# Values that a message may declare without holding them: as many as `MAX_ROWS` rows of 1,024 tokens have.
MAX_REPEATED = 2**17
# Of inputs; signatures have three at most. TensorFlow 2.21 ends the process where an array of strings has 33 or more.
MAX_RANK = 8
# Of one text. The tokenizer takes some 50 bytes for a byte of punctuation, and a model reads the first few thousand.
MAX_TEXT_BYTES = 2**20
# Bytes of all texts of a request, as a multiple of those of one.
_MAX_TEXTS = 4
# Names that a request may have beyond those of the signature, to be listed in the error.
_MAX_EXTRA_NAMES = 32
# Where a TensorProto keeps values of a type.
_FIELDS = {
    tf.float32: "float_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.string: "string_val",
    tf.bool: "bool_val",
}


def array_of(proto: tensor_pb2.TensorProto, spec: tf.TensorSpec, name: str) -> np.ndarray:
    """Returns the values of a message; where it has fewer than its shape, the last is repeated, as TensorFlow does.

    Args:
        proto: from a request.
        spec: what the signature wants; only its type is looked at, shapes are the graph's affair.
        name: of the input.

    Raises:
        ServingError: for another type, or what is no tensor.
    """
    try:
        dtype = tf.dtypes.as_dtype(proto.dtype)
    except TypeError as error:
        raise _unparsed(name, f"no type has the number {proto.dtype}") from error
    if dtype != spec.dtype:
        raise ServingError(f"input {name}: expects {spec.dtype.name} but {dtype.name} is provided")
    if proto.tensor_shape.unknown_rank:
        raise _unparsed(name, "its rank is unknown")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if any(size < 0 for size in shape):
        raise _unparsed(name, f"its shape has negative sizes: {shape}")
    size = math.prod(shape)
    # A size of 0 makes nothing of the other sizes, which numpy multiplies all the same.
    if max(size, *shape, 0) > MAX_VALUES or len(shape) > MAX_RANK:
        rule = f"it must have at most {MAX_RANK} dimensions and {MAX_VALUES} values"
        raise _unparsed(name, f"{rule}. Received: {shape[:MAX_RANK]}")
    check_rows(*shape[:1])
    values = _values(proto, dtype, size, name)
    if size - len(values) > MAX_REPEATED:
        rule = f"at most {MAX_REPEATED} values may be left out"
        raise _unparsed(name, f"{rule}. Received: {len(values)} values of the shape {shape}")
    return _filled(values, size, dtype).reshape(shape)


def check_rank(rank: int, name: str) -> None:
    """Refuses an input of too many dimensions. Raises ServingError."""
    if rank > MAX_RANK:
        raise ServingError(f"input {name}: a tensor must have at most {MAX_RANK} dimensions")


def check_arrays(arrays: Mapping[str, np.ndarray], max_text_bytes: int) -> None:
    """Refuses inputs of too many dimensions or too long texts. Raises ServingError.

    Args:
        arrays: inputs by name, strings as objects of bytes.
        max_text_bytes: of one text; all of a request may have four times as many.
    """
    total = 0
    for name, array in arrays.items():
        check_rank(array.ndim, name)
        if array.dtype != object:
            continue
        longest = 0
        for text in array.reshape(-1):
            longest = max(longest, len(text))
            total += len(text)
        if longest > max_text_bytes:
            raise ServingError(
                f"input {name}: a text must have at most {max_text_bytes} bytes. Received: {longest}. "
                "Send the part that the model reads, or start the server with `--max_text_bytes`"
            )
    if total > _MAX_TEXTS * max_text_bytes:
        rule = f"all texts of a request must have at most {_MAX_TEXTS * max_text_bytes} bytes"
        raise ServingError(f"{rule}. Received: {total}. Send fewer rows at once")


def check_rows(rows: int = 0) -> None:
    """Refuses a request of too many rows. Raises ServingError."""
    if rows > MAX_ROWS:
        raise ServingError(f"a request must have at most {MAX_ROWS} rows. Received: {rows}")


def check_names(received: Collection[str], expected: Collection[str]) -> None:
    """Refuses inputs that are not those of a signature. Raises ServingError in TF Serving's words."""
    if len(received) > len(expected) + _MAX_EXTRA_NAMES:
        names = ",".join(sorted(expected))
        raise ServingError(f"input size does not match signature: {len(received)}!={len(expected)} len({{{names}}})")
    sent, wanted = sorted(received), sorted(expected)
    if sent == wanted:
        return
    extra, missing = sorted(set(sent) - set(wanted)), sorted(set(wanted) - set(sent))
    raise ServingError(
        f"input size does not match signature: {len(sent)}!={len(wanted)} len({{{','.join(sent)}}}) != "
        f"len({{{','.join(wanted)}}}). Sent extra: {{{','.join(extra)}}}. "
        f"Missing but required: {{{','.join(missing)}}}."[:2000]
    )


def tensor_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Returns the message of an array, its values in the field of their type.

    Args:
        array: float32, int32, int64, bool, or strings as objects of bytes.
    """
    dtype = tf.string if array.dtype == object else tf.dtypes.as_dtype(array.dtype)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(array.reshape(-1).tolist())
    return proto


def _values(proto: tensor_pb2.TensorProto, dtype: tf.DType, size: int, name: str) -> np.ndarray:
    if proto.tensor_content and dtype != tf.string:
        if len(proto.tensor_content) % dtype.size:
            raise _unparsed(name, f"tensor_content has {len(proto.tensor_content)} bytes, of {dtype.size} each")
        return np.frombuffer(proto.tensor_content, dtype.as_numpy_dtype)
    listed = getattr(proto, _FIELDS[dtype])[:size]
    values = np.empty(len(listed), object if dtype == tf.string else dtype.as_numpy_dtype)
    values[:] = listed
    return values


def _filled(values: np.ndarray, size: int, dtype: tf.DType) -> np.ndarray:
    if len(values) >= size:
        return values[:size]
    nothing = b"" if dtype == tf.string else 0
    filled = np.empty(size, values.dtype)
    filled[: len(values)] = values
    # An array of one value: numpy copies a string for each place that it is given to by itself.
    filled[len(values) :] = values[-1:] if len(values) else nothing
    return filled


def _unparsed(name: str, reason: str) -> ServingError:
    return ServingError(f"tensor parsing error: {name}: {reason}")
