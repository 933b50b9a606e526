"""Reads and checks tensors of gRPC messages, and writes them in TF Serving's form."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from bert_tf.serving.errors import ServingError

Arrays = dict[str, np.ndarray]
Specs = Mapping[str, tf.TensorSpec]
# Maximum number of values of a tensor; a message of a few bytes may declare any shape.
MAX_VALUES = 2**22
# Maximum number of rows of a request. Memory grows with rows, and a request of the largest size could hold millions.
MAX_REQUEST_ROWS = 128
# Values that a message may declare without containing them: those of `MAX_REQUEST_ROWS` rows with 1,024 tokens.
MAX_REPEATED = 2**17
# Maximum rank of inputs; signatures use at most three. TensorFlow 2.21 aborts for string arrays of rank 33 or more.
MAX_RANK = 8
# Maximum bytes of one text. The tokenizer uses about 50 bytes of memory for each byte of punctuation, and a model reads
# only the first few thousand bytes.
MAX_TEXT_BYTES = 2**20
# Maximum bytes of all texts of a request, as a multiple of the maximum of one text.
_MAX_TEXTS = 4
# Maximum number of unknown input names that an error lists.
_MAX_EXTRA_NAMES = 32
# Fields of a TensorProto by dtype.
_FIELDS = {
    tf.float32: "float_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.string: "string_val",
    tf.bool: "bool_val",
}


def array_of(proto: tensor_pb2.TensorProto, spec: tf.TensorSpec, name: str) -> np.ndarray:
    """Returns the values of a message. If there are fewer than its shape has, the last is repeated, as in TensorFlow.

    Raises ServingError for another dtype than that of `spec` or an invalid tensor; the graph checks the shape.
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
    # The other sizes are checked even if one is 0, because NumPy multiplies them.
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
    """Raises ServingError for an input with too many dimensions."""
    if rank > MAX_RANK:
        raise ServingError(f"input {name}: a tensor must have at most {MAX_RANK} dimensions")


def check_arrays(arrays: Mapping[str, np.ndarray], max_text_bytes: int) -> None:
    """Raises ServingError for too many dimensions, texts over `max_text_bytes`, or over four times that in total."""
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
    check_text_bytes(total, max_text_bytes)


def check_text_bytes(total: int, max_text_bytes: int) -> None:
    """Raises ServingError if all texts of a request have more than four times `max_text_bytes`."""
    if total > _MAX_TEXTS * max_text_bytes:
        rule = f"all texts of a request must have at most {_MAX_TEXTS * max_text_bytes} bytes"
        raise ServingError(f"{rule}. Received: {total}. Send fewer rows at once")


def check_rows(rows: int = 0) -> None:
    """Raises ServingError for a request with too many rows."""
    if rows > MAX_REQUEST_ROWS:
        raise ServingError(f"a request must have at most {MAX_REQUEST_ROWS} rows. Received: {rows}")


def check_names(received: Collection[str], expected: Collection[str]) -> None:
    """Checks input names against a signature. Raises ServingError with TF Serving's message."""
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
    """Returns a float32, int32, int64, bool or bytes array as a message, with values in the field of their dtype."""
    dtype = tf.string if array.dtype == object else tf.dtypes.as_dtype(array.dtype)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(array.reshape(-1).tolist())
    return proto


def _values(proto: tensor_pb2.TensorProto, dtype: tf.DType, size: int, name: str) -> np.ndarray:
    others = [field for field in _FIELDS.values() if field != _FIELDS[dtype] and len(getattr(proto, field))]
    if others:
        raise _unparsed(name, f"{dtype.name} values must be in {_FIELDS[dtype]}. Received: {others[0]}")
    if proto.tensor_content:
        if dtype == tf.string:
            return _strings(proto, size, name)
        if len(proto.tensor_content) % dtype.size:
            raise _unparsed(name, f"tensor_content has {len(proto.tensor_content)} bytes, of {dtype.size} each")
        return np.frombuffer(proto.tensor_content, dtype.as_numpy_dtype)
    field_values = getattr(proto, _FIELDS[dtype])[:size]
    values = np.empty(len(field_values), object if dtype == tf.string else dtype.as_numpy_dtype)
    values[:] = field_values
    return values


def _strings(proto: tensor_pb2.TensorProto, size: int, name: str) -> np.ndarray:
    """Returns the strings of `tensor_content`."""
    # Each string has at least the byte of its length, so that a short message makes no large array.
    if size <= len(proto.tensor_content):
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            return tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy().reshape(-1)
    raise _unparsed(name, f"tensor_content must have the lengths of {size} strings, and then their bytes")


def _filled(values: np.ndarray, size: int, dtype: tf.DType) -> np.ndarray:
    if len(values) >= size:
        return values[:size]
    default = b"" if dtype == tf.string else 0
    filled = np.empty(size, values.dtype)
    filled[: len(values)] = values
    # An array of one value: NumPy would copy a bare string for each element.
    filled[len(values) :] = values[-1:] if len(values) else default
    return filled


def _unparsed(name: str, reason: str) -> ServingError:
    return ServingError(f"tensor parsing error: {name}: {reason}")
