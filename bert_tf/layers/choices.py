"""Reshapes the choices of an example to rows of the encoder, and back.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class FoldChoices(keras.layers.Layer):
    """Reshapes every choice to a row.

    Call arguments:
        ids: (B, N, S) int32.

    Returns:
        (B N, S) int32.
    """

    def call(self, ids):
        """Returns the rows."""
        return ops.reshape(ids, (-1, ops.shape(ids)[2]))

    def compute_output_spec(self, ids):
        """Returns the symbolic rows."""
        return keras.KerasTensor((None, ids.shape[2]), dtype=ids.dtype)


@keras.saving.register_keras_serializable(package="bert_tf")
class UnfoldChoices(keras.layers.Layer):
    """Reshapes row scores to scores by example.

    Call arguments:
        scores: (B N, 1).
        ids: (B, N, S), used for its shape only.

    Returns:
        (B, N).
    """

    def call(self, scores, ids):
        """Returns the scores by example."""
        return ops.reshape(scores, ops.shape(ids)[:2])

    def compute_output_spec(self, scores, ids):
        """Returns the symbolic scores."""
        return keras.KerasTensor(tuple(ids.shape[:2]), dtype=scores.dtype)
