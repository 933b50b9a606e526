"""One vector for a row of tokens.

Shape legend: B batch, S sequence, H hidden.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class TokenPooling(keras.layers.Layer):
    """Mean or maximum over the tokens of a row, [CLS] and [SEP] among them, or the last one; padding left out.

    Args:
        kind: `mean`, `max` or `last`.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        sequence: (B, S, H).
        padding_mask: (B, S) int32, 1 where there is a token.

    Returns:
        (B, H), computed in float32 and given in the compute dtype; 0 where a row has no token.

    Raises:
        ValueError: for another kind.
    """

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in ("mean", "max", "last"):
            raise ValueError(f"`kind` must be `mean`, `max` or `last`. Received: {kind!r}")
        self.kind = kind

    def call(self, sequence, padding_mask):
        """Returns the vectors."""
        there = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=-1)
        values = ops.cast(sequence, "float32")
        if self.kind == "mean":
            count = ops.sum(ops.cast(there, "float32"), axis=1)
            pooled = ops.sum(ops.where(there, values, 0.0), axis=1) / ops.maximum(count, 1.0)
        elif self.kind == "last":
            position = ops.expand_dims(ops.arange(ops.shape(values)[1], dtype="int32"), axis=-1)
            last = ops.max(ops.where(there, position, -1), axis=1, keepdims=True, initial=-1)
            pooled = ops.sum(ops.where(ops.equal(position, last), values, 0.0), axis=1)
        else:
            # With `initial`, an empty batch has an empty answer; without, Keras puts an assertion into the graph.
            most = ops.max(ops.where(there, values, float("-inf")), axis=1, initial=float("-inf"))
            pooled = ops.where(ops.any(there, axis=1), most, 0.0)
        return ops.cast(pooled, self.compute_dtype)

    def compute_output_shape(self, sequence_shape, padding_mask_shape):
        """Returns (B, H)."""
        return (sequence_shape[0], sequence_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {"kind": self.kind}
