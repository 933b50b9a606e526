"""An array in a file of weights, before anything is known of the model it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# What weights may be kept in here, widest first; other formats would lose bits or are not numbers of a model.
FLOATS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class StoredTensor:
    """One array of a file.

    Args:
        name: in the file.
        file: it stands in.
        dtype: number format by numpy's name.
        shape: in the file's layout.
        read: returns the array.
        place: equal for two names of the same bytes; None where the file does not share any.
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    place: object = None
