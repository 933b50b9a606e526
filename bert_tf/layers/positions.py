"""Gathers single positions of sequences.

Shape legend: B batch, S sequence, N positions, H hidden.
"""

from __future__ import annotations

import keras
from keras import ops


def rows_at(sequence, positions):
    """Gathers the vectors, (B, N, H), at int32 positions (B, N) in [0, S), not checked, of sequences (B, S, H)."""
    batch, length = ops.shape(sequence)[:2]
    hidden = sequence.shape[-1]
    # One gather of whole rows, whose gradient is a scatter of rows; the gradient of a batched gather is slower.
    first_rows = ops.expand_dims(ops.arange(batch, dtype="int32") * length, axis=1)
    rows = ops.reshape(ops.cast(positions, "int32") + first_rows, (-1,))
    taken = ops.take(ops.reshape(sequence, (-1, hidden)), rows, axis=0)
    return ops.reshape(taken, (batch, ops.shape(positions)[1], hidden))


@keras.saving.register_keras_serializable(package="bert_tf")
class RowsAt(keras.layers.Layer):
    """Gathers the vectors at some positions of each sequence: `rows_at` as a layer.

    Call arguments:
        sequence: (B, S, H).
        positions: (B, N) int32 in [0, S).

    Returns:
        (B, N, H).

    Example:
        >>> sequence = np.array([[[1.0], [2.0], [3.0]]], "float32")
        >>> rows = bert_tf.layers.RowsAt()(sequence, np.array([[2, 0]]))
        >>> keras.ops.convert_to_numpy(rows).tolist()
        [[[3.0], [1.0]]]
    """

    def call(self, sequence, positions):
        """Returns the rows."""
        return rows_at(sequence, positions)

    def compute_output_shape(self, sequence_shape, positions_shape):
        """Returns (B, N, H)."""
        return (*positions_shape, sequence_shape[-1])
