"""Columns of texts: lists, arrays, pandas columns, tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError


def columns_of(x: Any) -> tuple[Any, ...]:
    """Returns the columns of inputs.

    Args:
        x: one column; or a tuple, a dictionary or a data frame of columns; or a list of tuples, one tuple for each row.

    Returns:
        The columns, unchanged.
    """
    if isinstance(x, Mapping):
        return tuple(x.values())
    if hasattr(x, "columns"):
        return tuple(x[name] for name in x.columns)
    if isinstance(x, tuple):
        return x
    if isinstance(x, list) and x and all(isinstance(row, tuple) for row in x):
        return tuple(list(column) for column in zip(*x, strict=True))
    return (x,)


def texts_of(column: Any, name: str = "texts") -> list[str]:
    """Returns a column as a list of strings.

    Args:
        column: list, array, pandas column or tensor of strings, or a single string.
        name: name of the column in errors.

    Returns:
        The strings; bytes are decoded as UTF-8.

    Raises:
        ConfigError: for anything but strings, with the number of the row.
    """
    values = [column] if isinstance(column, str | bytes) else items_of(column)
    return [_text(value, row, name) for row, value in enumerate(values)]


def values_of(column: Any) -> np.ndarray:
    """Returns a column of labels or weights as an array."""
    if tf.is_tensor(column):
        return column.numpy()
    return np.asarray(column)


def is_text(values: np.ndarray) -> bool:
    """Returns True for an array of strings."""
    return values.dtype.kind in "US" or (
        values.dtype.kind == "O" and bool(values.size) and isinstance(values.flat[0], str | bytes)
    )


def labels_of(values: np.ndarray) -> list[str]:
    """Returns an array of strings as a list of `str`."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values.ravel().tolist()]


def rows_in(column: Any) -> int:
    """Returns the number of rows of a column."""
    return 1 if isinstance(column, str | bytes) else len(column)


def sliced(data: Any, begin: int, end: int) -> Any:
    """Returns rows `begin` to `end` (exclusive) of a column, or of a tuple or dictionary of columns."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {name: sliced(column, begin, end) for name, column in data.items()}
    if isinstance(data, tuple):
        return tuple(sliced(column, begin, end) for column in data)
    if hasattr(data, "iloc"):
        return data.iloc[begin:end]
    return data[begin:end]


def items_of(column: Any) -> Sequence[Any]:
    """Returns the entries of a list, an array, a pandas column or a tensor."""
    if isinstance(column, list | tuple):
        return column
    if isinstance(column, tf.RaggedTensor):
        return column.to_list()
    return values_of(column).tolist()


def _text(value: Any, row: int, name: str) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise ConfigError(f"`{name}` must hold strings. Received: {value!r} in row {row}. Remove or convert it.")
    return value
