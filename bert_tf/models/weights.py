"""Weights of one model given to another."""

from __future__ import annotations

import keras


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Gives the weights of `target` the values of those of `source` with the same path; a pooler may be missing.

    Raises:
        RuntimeError: where `source` has other weights that `target` lacks.
    """
    given = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        if weight.path in given:
            weight.assign(given.pop(weight.path))
    left = [path for path in given if "pooler" not in path]
    if left:
        raise RuntimeError(f"the model has no weights {sorted(left)}")
