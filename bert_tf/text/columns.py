"""Columns of texts: lists, arrays, pandas columns, tensors."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def named_columns(x: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Returns the columns of inputs, selected by name if the inputs have names.

    Args:
        x: as for `columns_of`; or a list of dictionaries, one for each row; or, for several names, an array of shape
            (rows, names); or any iterable of rows.
        names: names of the columns. A dictionary or data frame without these names has its columns in this order.

    Returns:
        The columns, unchanged.

    Raises:
        ConfigError: for another number of columns.
    """
    if isinstance(x, Iterable) and not hasattr(x, "__len__") and not tf.is_tensor(x):
        x = list(x)
    if isinstance(x, list) and x and all(isinstance(row, Mapping) for row in x):
        x = {name: [row.get(name) for row in x] for name in x[0]}
    elif len(names) > 1 and getattr(x, "ndim", 0) == 2 and not hasattr(x, "columns"):
        x = tuple(np.asarray(x).T)
    given = list(x) if isinstance(x, Mapping) else list(getattr(x, "columns", ()))
    if given and set(names) <= set(given):
        return tuple(x[name] for name in names)
    found = columns_of(x)
    if len(found) != len(names):
        received = ", ".join(map(str, given)) or str(len(found))
        raise ConfigError(
            f"inputs must have {len(names)} column(s): {', '.join(names)}. Received: {received}. "
            "A list is one column; a tuple, a dictionary or a data frame has several."
        )
    return found


def rows_of(x: Any, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the texts of each row of inputs, in the order of `names`.

    Args:
        x: as for `named_columns`; strings in place of columns are one row.
        names: names of the columns.

    Returns:
        The rows.

    Raises:
        ConfigError: for another number of columns, columns of different lengths, and anything but strings, with the
            number of the row.
    """
    if isinstance(x, list) and not x:
        return []
    texts = [texts_of(column, name) for name, column in zip(names, named_columns(x, names), strict=True)]
    if len({len(column) for column in texts}) != 1:
        raise ConfigError(f"columns must have the same length. Received: {[len(column) for column in texts]}")
    return list(zip(*texts, strict=True))


def is_single(x: Any) -> bool:
    """Returns True for the inputs of one example: a string, or a tuple or dictionary that holds a string."""
    parts = x.values() if isinstance(x, Mapping) else x if isinstance(x, tuple) else (x,)
    return any(isinstance(part, str | bytes) for part in parts)


def texts_of(column: Any, name: str = "texts") -> list[str]:
    """Returns a column as a list of strings.

    Args:
        column: list, array, pandas column, tensor or other iterable of strings, or a single string.
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
    values = np.asarray(column)
    # NumPy writes a missing label among names as "nan".
    is_mixed = values.dtype.kind == "U" and not all(isinstance(value, str) for value in column)
    return np.array(column, object) if is_mixed else values


def is_text(values: np.ndarray) -> bool:
    """Returns True for an array of strings; some may be missing."""
    return values.dtype.kind in "US" or (
        values.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in values.flat)
    )


def labels_of(values: np.ndarray) -> list[str]:
    """Returns an array of strings as a list of `str`. Raises ConfigError for a missing one, with its row."""
    return [_text(value, row, "labels") for row, value in _entries(values)]


def numbers_of(values: np.ndarray) -> np.ndarray:
    """Returns an array of numbers. Raises ConfigError for a missing number or another value, with its row."""
    is_complete = values.dtype.kind != "O" and not (values.dtype.kind == "f" and np.isnan(values).any())
    if is_complete:
        return values
    for row, value in _entries(values):
        if not isinstance(value, numbers.Real) or math.isnan(value):
            raise ConfigError(f"labels must not be missing. Received: {value!r} in row {row}. Remove the row.")
    return np.array(values.tolist())


def _entries(values: np.ndarray) -> Iterator[tuple[int, Any]]:
    """Yields the row and the value of each entry of an array."""
    for row, entry in enumerate(np.atleast_1d(values)):
        for value in np.ravel(entry).tolist():
            yield row, value


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
    """Returns the entries of a list, an array, a pandas column, a tensor or another iterable."""
    if isinstance(column, list | tuple):
        return column
    if isinstance(column, tf.RaggedTensor):
        return column.to_list()
    if isinstance(column, Iterable) and not hasattr(column, "__len__") and not tf.is_tensor(column):
        return list(column)
    values = values_of(column)
    return values.tolist() if values.ndim else [values.tolist()]


def _text(value: Any, row: int, name: str) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise ConfigError(f"`{name}` must hold strings. Received: {value!r} in row {row}. Remove or convert it.")
    return value
