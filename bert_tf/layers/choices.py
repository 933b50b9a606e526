"""Reshapes the choices of an example to rows of the encoder, and back.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class FoldChoices(keras.layers.Layer):
    """Reshapes every choice of int32 ids, (B, N, S), to a row, (B N, S)."""

    def call(self, ids):
        """Returns the rows."""
        return ops.reshape(ids, (-1, ops.shape(ids)[2]))

    def compute_output_spec(self, ids):
        """Returns the symbolic rows."""
        return keras.KerasTensor((None, ids.shape[2]), dtype=ids.dtype)


@keras.saving.register_keras_serializable(package="bert_tf")
class UnfoldChoices(keras.layers.Layer):
    """Reshapes scores of rows, (B N, 1), to scores by example, (B, N), for the shape of ids, (B, N, S)."""

    def call(self, scores, ids):
        """Returns the scores by example."""
        return ops.reshape(scores, ops.shape(ids)[:2])

    def compute_output_spec(self, scores, ids):
        """Returns the symbolic scores."""
        return keras.KerasTensor(tuple(ids.shape[:2]), dtype=scores.dtype)
