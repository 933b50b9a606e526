"""Attention masks, computed once for all transformer layers.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.layers.base import ConfiguredLayer

# Large enough that adding it rounds every score away: a fully masked row has equal, finite weights.
_NEVER = -1e9


@keras.saving.register_keras_serializable(package="bert_tf")
class AttentionMask(ConfiguredLayer):
    """Converts a padding mask to an additive attention mask: 0 for visible positions, -1e9 for masked ones.

    Padding is never attended to; outputs at padding positions are undefined.

    Args:
        left_to_right: whether a position sees only itself and earlier positions ("LTR" in Table 5 of the paper).
        reach: distance up to which positions see each other; None for any.

    Call arguments:
        padding_mask: (B, S) int32, 1 for tokens, 0 for padding.
        example_ids: (B, S) int32, required for packed rows (`data.input.packing`); tokens attend only to
            tokens with the same id.

    Returns:
        float32 (B, 1, 1, S), shared by all heads and positions; (B, 1, S, S) with `left_to_right`, `reach` or
        `example_ids`.

    Example:
        >>> mask = bert_tf.layers.AttentionMask()(np.array([[1, 1, 0]]))
        >>> keras.ops.convert_to_numpy(mask).tolist()
        [[[[0.0, 0.0, -1000000000.0]]]]
        >>> keras.ops.shape(bert_tf.layers.AttentionMask(left_to_right=True)(np.array([[1, 1, 0]])))
        (1, 1, 3, 3)
    """

    def __init__(self, left_to_right: bool = False, reach: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.left_to_right = left_to_right
        self.reach = reach

    def call(self, padding_mask, example_ids=None):
        """Returns the attention mask."""
        mask = ops.expand_dims(ops.not_equal(padding_mask, 0), axis=1)
        if example_ids is not None:
            same = ops.equal(ops.expand_dims(example_ids, axis=2), ops.expand_dims(example_ids, axis=1))
            mask = ops.logical_and(mask, same)
        if self.left_to_right or self.reach is not None:
            positions = ops.arange(ops.shape(padding_mask)[1])
            distance = ops.expand_dims(positions, axis=1) - ops.expand_dims(positions, axis=0)
            if self.left_to_right:
                mask = ops.logical_and(mask, ops.expand_dims(distance >= 0, axis=0))
            if self.reach is not None:
                mask = ops.logical_and(mask, ops.expand_dims(ops.abs(distance) <= self.reach, axis=0))
        return ops.expand_dims(ops.where(mask, 0.0, _NEVER), axis=1)

    def compute_output_shape(self, padding_mask_shape, example_ids_shape=None):
        """Returns (B, 1, 1, S) or (B, 1, S, S)."""
        batch, sequence = padding_mask_shape
        shared = not self.left_to_right and self.reach is None and example_ids_shape is None
        return (batch, 1, 1 if shared else sequence, sequence)

    def compute_output_spec(self, padding_mask, example_ids=None):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        shape = self.compute_output_shape(padding_mask.shape, None if example_ids is None else example_ids.shape)
        return keras.KerasTensor(shape, dtype="float32")
