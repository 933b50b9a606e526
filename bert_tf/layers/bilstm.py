"""Bidirectional LSTMs.

Shape legend: B batch, S sequence, H width of the input, D width of one direction.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.layers.base import ConfiguredLayer


@keras.saving.register_keras_serializable(package="bert_tf")
class BiLSTM(ConfiguredLayer):
    """Stacked bidirectional LSTMs that skip padding.

    Args:
        units: D.
        num_layers: number of stacked LSTMs.
        dropout: dropout rate on the input of each LSTM.

    Call arguments:
        sequence: (B, S, H).
        padding_mask: (B, S) int32, 1 for tokens, 0 for padding; tokens come first.

    Returns:
        The outputs, (B, S, 2 D), zero for padding, and the final states of the top LSTM, (B, 2 D): forward after the
        last token, backward after the first token.

    Example:
        >>> sequence = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> outputs, states = bert_tf.layers.BiLSTM(units=8)(sequence, np.array([[1, 1, 1], [1, 1, 0]]))
        >>> keras.ops.shape(outputs), keras.ops.shape(states)
        ((2, 3, 16), (2, 16))
    """

    def __init__(self, units: int, num_layers: int = 1, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.num_layers = num_layers
        self.dropout = dropout
        self.dropouts = [
            keras.layers.Dropout(dropout, dtype=self.dtype_policy, name=f"dropout_{number}")
            for number in range(1, num_layers + 1)
        ]
        self.lstms = [self._bidirectional(number) for number in range(1, num_layers + 1)]

    def build(self, sequence_shape, padding_mask_shape):
        """Creates the weights of all LSTMs."""
        shape = tuple(sequence_shape)
        for lstm in self.lstms:
            lstm.build(shape)
            shape = (*shape[:2], 2 * self.units)
        self.built = True

    def call(self, sequence, padding_mask, training=None):
        """Returns the outputs and the final states."""
        mask = ops.not_equal(padding_mask, 0)
        forward = backward = None
        for dropout, lstm in zip(self.dropouts, self.lstms, strict=True):
            sequence, forward, _, backward, _ = lstm(dropout(sequence, training=training), mask=mask)
        return sequence, ops.concatenate([forward, backward], axis=-1)

    def compute_output_shape(self, sequence_shape, padding_mask_shape):
        """Returns (B, S, 2 D) and (B, 2 D)."""
        batch, length = padding_mask_shape
        return (batch, length, 2 * self.units), (batch, 2 * self.units)

    def _bidirectional(self, number: int) -> keras.layers.Bidirectional:
        lstm = keras.layers.LSTM(
            self.units, return_sequences=True, return_state=True, dtype=self.dtype_policy, name="lstm"
        )
        return keras.layers.Bidirectional(lstm, dtype=self.dtype_policy, name=f"bilstm_{number}")
