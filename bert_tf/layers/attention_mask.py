"""Which position may attend to which: computed once for all transformer layers.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class AttentionMask(keras.layers.Layer):
    """Turns a padding mask into the attention mask of `keras_hub.layers.TransformerEncoder`.

    Padding is never attended to; what stands at padded positions of an output means nothing.

    Args:
        left_to_right: let a position see itself and those before it only (paper's Table 5, "LTR").
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        padding_mask: (B, S) int32, 1 where there is a token.

    Returns:
        bool, (B, 1, S), the same for every position; (B, S, S) when `left_to_right`.
    """

    def __init__(self, left_to_right: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.left_to_right = left_to_right

    def call(self, padding_mask):
        """Returns the attention mask."""
        mask = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=1)
        if not self.left_to_right:
            return mask
        positions = ops.arange(ops.shape(padding_mask)[1])
        earlier = ops.expand_dims(positions, axis=1) >= ops.expand_dims(positions, axis=0)
        return ops.logical_and(mask, ops.expand_dims(earlier, axis=0))

    def compute_output_shape(self, padding_mask_shape):
        """Returns (B, 1, S) or (B, S, S)."""
        batch, sequence = padding_mask_shape
        return (batch, sequence if self.left_to_right else 1, sequence)

    def compute_output_spec(self, padding_mask):
        """Returns the symbolic output; bool, not the layer's compute dtype."""
        return keras.KerasTensor(self.compute_output_shape(padding_mask.shape), dtype="bool")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {"left_to_right": self.left_to_right}
