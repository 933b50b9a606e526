"""Pooling of token outputs to one vector per row.

Shape legend: B batch, S sequence, H hidden.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.layers.base import ConfiguredLayer

# Subtracted from the logits of padding: their softmax in float32 is 0.
_OUT_OF_REACH = 1e9


def without_padding(logits, padding_mask):
    """Returns logits over tokens (B, S) in float32, lowered at padding so that their softmax is 0."""
    return ops.cast(logits, "float32") - _OUT_OF_REACH * (1.0 - ops.cast(padding_mask, "float32"))


@keras.saving.register_keras_serializable(package="bert_tf")
class TokenPooling(ConfiguredLayer):
    """Computes the mean or maximum over the tokens of a row, or selects the last token.

    [CLS] and [SEP] are included, padding is excluded.

    Args:
        kind: `mean`, `max` or `last`.

    Call arguments:
        sequence: (B, S, H).
        padding_mask: (B, S) int32, 1 for tokens, 0 for padding.

    Returns:
        (B, H), computed in float32 and cast to the compute dtype; 0 for a row without tokens.

    Raises:
        ValueError: for another kind.

    Example:
        >>> sequence = np.array([[[1.0], [3.0], [9.0]]], "float32")
        >>> vectors = bert_tf.layers.TokenPooling("mean")(sequence, np.array([[1, 1, 0]]))
        >>> keras.ops.convert_to_numpy(vectors).tolist()
        [[2.0]]
    """

    def __init__(self, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in ("mean", "max", "last"):
            raise ValueError(f"`kind` must be `mean`, `max` or `last`. Received: {kind!r}")
        self.kind = kind

    def call(self, sequence, padding_mask):
        """Returns the vectors."""
        is_token = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=-1)
        values = ops.cast(sequence, "float32")
        if self.kind == "mean":
            count = ops.sum(ops.cast(is_token, "float32"), axis=1)
            pooled = ops.sum(ops.where(is_token, values, 0.0), axis=1) / ops.maximum(count, 1.0)
        elif self.kind == "last":
            position = ops.expand_dims(ops.arange(ops.shape(values)[1], dtype="int32"), axis=-1)
            last = ops.max(ops.where(is_token, position, -1), axis=1, keepdims=True, initial=-1)
            pooled = ops.sum(ops.where(ops.equal(position, last), values, 0.0), axis=1)
        else:
            # `initial` makes empty batches work; without it Keras adds an assertion to the graph.
            most = ops.max(ops.where(is_token, values, float("-inf")), axis=1, initial=float("-inf"))
            pooled = ops.where(ops.any(is_token, axis=1), most, 0.0)
        return ops.cast(pooled, self.compute_dtype)

    def compute_output_shape(self, sequence_shape, padding_mask_shape):
        """Returns (B, H)."""
        return (sequence_shape[0], sequence_shape[-1])
