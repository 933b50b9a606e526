"""Copies weights between models."""

from __future__ import annotations

from collections.abc import Collection

import keras
import numpy as np


def copy_weights(
    source: keras.Model, target: keras.Model, repeated: str = "", optional: Collection[str] = ("pooler",)
) -> None:
    """Copies weights from `source` to the weights of `target` with the same path.

    Args:
        source: model to copy from; `target` must have all its layers except the optional ones.
        target: model to copy to, with the same shapes except for `repeated`.
        repeated: path of a table that may differ in its number of rows: rows are repeated from the first on if `target`
            has more, and truncated if it has fewer.
        optional: names of layers that `target` may lack.

    Raises:
        RuntimeError: if `target` lacks weights of a layer that is not optional.
    """
    source_weights = {weight.path: weight for weight in source.weights}
    for weight in target.weights:
        if weight.path in source_weights:
            values = source_weights.pop(weight.path)
            if weight.path == repeated:
                # The widths are equal, so np.resize repeats or truncates whole rows.
                values = np.resize(keras.ops.convert_to_numpy(values), weight.shape)
            weight.assign(values)
    missing = [path for path in source_weights if not set(optional) & set(path.split("/"))]
    if missing:
        raise RuntimeError(f"the target model lacks the weights {sorted(missing)}")
