"""Arrays in a file of weights, independent of the model they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Dtypes of weights, widest first. Other dtypes would lose bits or are not those of weights.
FLOATS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class StoredTensor:
    """One array in a file.

    Args:
        name: name in the file.
        file: path of the file.
        dtype: numpy's name of the dtype.
        shape: shape in the file's layout.
        read: returns the array.
        place: location of the bytes, equal for two names of the same bytes; None if the file shares none.
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    place: object = None
