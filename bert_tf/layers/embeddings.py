"""Token, position and segment embeddings.

Shape legend: B batch, S sequence, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_tf.layers.base import ConfiguredLayer
from bert_tf.layers.normalization import LayerNormalization


@keras.saving.register_keras_serializable(package="bert_tf")
class BertEmbeddings(ConfiguredLayer):
    """Sums token, position and segment embeddings, with normalization and dropout (arXiv 1810.04805, figure 2).

    Lookup, sum and normalization use the variable dtype: under `mixed_*` policies that is float32, so that the gradient
    of a frequent token is not summed in half precision. The output has the compute dtype.

    Args:
        vocabulary_size: V, number of rows in the token table.
        hidden_dim: H.
        max_sequence_length: number of learned positions; longer inputs raise an error.
        num_segments: number of rows in the segment table; 0 for no segments.
        dropout: dropout rate after the normalization.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal initializer of the three tables.
        learned_positions: whether there is a position table.
        normalizes: whether the sum is normalized.
        normalization_bias: whether the normalization has a bias, beta.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: (B, S) int32 in [0, V).
        segment_ids: (B, S) int32 in [0, num_segments).
        position_ids: (B, S) int32 in [0, max_sequence_length); defaults to positions counted from the start of the row.
            Used for packed rows (`data.input.packing`).
        training: whether to apply dropout.

    Returns:
        (B, S, H). No Keras mask is attached; id 0 is an ordinary token.

    Raises:
        ValueError: if S is known and exceeds `max_sequence_length`. If S is only known while a TensorFlow graph runs,
            the slice of the position table fails at run time.

    Example:
        >>> embeddings = bert_tf.layers.BertEmbeddings(vocabulary_size=100, hidden_dim=16)
        >>> ids = np.array([[2, 5, 6, 3]], "int32")
        >>> keras.ops.shape(embeddings(ids, np.zeros_like(ids)))
        (1, 4, 16)
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        learned_positions: bool = True,
        normalizes: bool = True,
        normalization_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.learned_positions = learned_positions
        self.normalizes = normalizes
        self.normalization_bias = normalization_bias
        self.token_embedding = keras.layers.Embedding(
            vocabulary_size,
            hidden_dim,
            embeddings_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
            dtype=self.variable_dtype,
            name="token_embedding",
        )
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_epsilon, center=normalization_bias, dtype=self.variable_dtype, name="layer_norm"
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, token_ids_shape, segment_ids_shape, position_ids_shape=None):
        """Creates the tables."""
        self._check_length(token_ids_shape[1])
        self.token_embedding.build(token_ids_shape)
        if self.learned_positions:
            self.position_embedding = self._add_table("position_embedding", self.max_sequence_length)
        if self.num_segments:
            self.segment_embedding = self._add_table("segment_embedding", self.num_segments)
        if self.normalizes:
            self.layer_norm.build((*token_ids_shape, self.hidden_dim))
        self.built = True

    def call(self, token_ids, segment_ids, position_ids=None, training=None):
        """Returns the embeddings, (B, S, H)."""
        self._check_length(token_ids.shape[1])
        summed = self.token_embedding(token_ids)
        if self.num_segments:
            # The gradient of a one-hot product is dense with num_segments rows; that of a gather has one row per token.
            summed = summed + ops.matmul(
                ops.one_hot(segment_ids, self.num_segments, dtype=self.variable_dtype), self.segment_embedding
            )
        if self.learned_positions:
            summed = summed + self._positions(token_ids, position_ids)
        normalized = ops.cast(self.layer_norm(summed) if self.normalizes else summed, self.compute_dtype)
        return self.dropout_layer(normalized, training=training)

    def _positions(self, token_ids, position_ids):
        """Returns the position embeddings: (B, S, H) if `position_ids` is set, (1, S, H) otherwise."""
        table = ops.convert_to_tensor(self.position_embedding)
        if position_ids is not None:
            return ops.take(table, position_ids, axis=0)
        # `[:length]` would silently clip a length that is too large.
        length = ops.shape(token_ids)[1]
        return ops.expand_dims(ops.slice(table, (0, 0), (length, self.hidden_dim)), axis=0)

    def compute_output_shape(self, token_ids_shape, segment_ids_shape, position_ids_shape=None):
        """Returns (B, S, H)."""
        self._check_length(token_ids_shape[1])
        return (*token_ids_shape, self.hidden_dim)

    def _add_table(self, name: str, rows: int) -> keras.Variable:
        return self.add_weight(
            shape=(rows, self.hidden_dim),
            initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            name=name,
            autocast=False,
        )

    def _check_length(self, length: int | None) -> None:
        if length is not None and length > self.max_sequence_length:
            raise ValueError(
                f"`token_ids` must not be longer than `max_sequence_length` = {self.max_sequence_length}. "
                f"Received: {length}"
            )
