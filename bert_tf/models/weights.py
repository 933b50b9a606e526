"""Weights of one model given to another."""

from __future__ import annotations

from collections.abc import Collection

import keras
import numpy as np


def copy_weights(
    source: keras.Model, target: keras.Model, repeated: str = "", optional: Collection[str] = ("pooler",)
) -> None:
    """Copies the weights of `source` to those of `target` with the same path.

    Args:
        source: the model to copy from; all its layers but the optional ones must be in `target`.
        target: of the same shapes, but for `repeated`.
        repeated: path of a table whose rows come again, from the first on, where that of `target` has more of them, and
            are cut where it has fewer.
        optional: names of layers that `target` may lack.

    Raises:
        RuntimeError: where `source` has weights of other layers that `target` lacks.
    """
    given = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        if weight.path in given:
            values = given.pop(weight.path)
            if weight.path == repeated:
                # Of equal width, rows follow rows.
                values = np.resize(keras.ops.convert_to_numpy(values), weight.shape)
            weight.assign(values)
    left = [path for path in given if not set(optional) & set(path.split("/"))]
    if left:
        raise RuntimeError(f"the model has no weights {sorted(left)}")
