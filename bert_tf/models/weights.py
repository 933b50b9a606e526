"""Weights of one model given to another."""

from __future__ import annotations

import keras
import numpy as np


def copy_weights(source: keras.Model, target: keras.Model, repeated: str = "") -> None:
    """Gives the weights of `target` the values of those of `source` with the same path; a pooler may be missing.

    Args:
        source: has nothing else that `target` lacks.
        target: of the same shapes, but for `repeated`.
        repeated: path of a table whose rows come again, from the first on, where that of `target` has more of them, and
            are cut where it has fewer.

    Raises:
        RuntimeError: where `source` has other weights that `target` lacks.
    """
    given = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        if weight.path in given:
            values = given.pop(weight.path)
            if weight.path == repeated:
                # Of equal width, rows follow rows.
                values = np.resize(keras.ops.convert_to_numpy(values), weight.shape)
            weight.assign(values)
    left = [path for path in given if "pooler" not in path]
    if left:
        raise RuntimeError(f"the model has no weights {sorted(left)}")
