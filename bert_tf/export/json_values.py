"""Arrays as plain Python, for JSON and for clients."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(array: np.ndarray) -> Any:
    """Returns an array as nested lists; floats get the digits of their float32.

    Args:
        array: numbers, or strings as objects of bytes, of which what is no UTF-8 is replaced.
    """
    if array.dtype == object:
        decoded = [value.decode("utf-8", "replace") for value in array.reshape(-1)]
        return np.array(decoded, dtype=object).reshape(array.shape).tolist()
    if array.dtype == np.float32:
        # The shortest digits that give the same float32, not those of its double.
        return array.astype(str).astype(np.float64).tolist()
    return array.tolist()


def float32_digits(value: float) -> float:
    """Returns the double with the shortest digits that give the same float32."""
    return float(str(np.float32(value)))
