"""Which position may attend to which: computed once for all transformer layers.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

# Beside it every score is rounded away, so that where nothing may be attended to all weights are equal, and finite.
_NEVER = -1e9


@keras.saving.register_keras_serializable(package="bert_tf")
class AttentionMask(keras.layers.Layer):
    """Turns a padding mask into what is added to the attention scores: nothing, or a very negative number.

    Padding is never attended to; what stands at padded positions of an output means nothing.

    Args:
        left_to_right: let a position see itself and those before it only (paper's Table 5, "LTR").
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        padding_mask: (B, S) int32, 1 where there is a token.
        example_ids: (B, S) int32 where a row holds several examples (`data.packing`), a number for the tokens of each:
            they see those of the same number only.

    Returns:
        float32 (B, 1, 1, S), the same for every head and position; (B, 1, S, S) when `left_to_right`, or with
        `example_ids`.
    """

    def __init__(self, left_to_right: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.left_to_right = left_to_right

    def call(self, padding_mask, example_ids=None):
        """Returns the attention mask."""
        mask = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=1)
        if example_ids is not None:
            same = ops.equal(ops.expand_dims(example_ids, axis=2), ops.expand_dims(example_ids, axis=1))
            mask = ops.logical_and(mask, same)
        if self.left_to_right:
            positions = ops.arange(ops.shape(padding_mask)[1])
            earlier = ops.expand_dims(positions, axis=1) >= ops.expand_dims(positions, axis=0)
            mask = ops.logical_and(mask, ops.expand_dims(earlier, axis=0))
        return ops.expand_dims(ops.where(mask, 0.0, _NEVER), axis=1)

    def compute_output_shape(self, padding_mask_shape, example_ids_shape=None):
        """Returns (B, 1, 1, S) or (B, 1, S, S)."""
        batch, sequence = padding_mask_shape
        alike = not self.left_to_right and example_ids_shape is None
        return (batch, 1, 1 if alike else sequence, sequence)

    def compute_output_spec(self, padding_mask, example_ids=None):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        shape = self.compute_output_shape(padding_mask.shape, None if example_ids is None else example_ids.shape)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return super().get_config() | {"left_to_right": self.left_to_right}
