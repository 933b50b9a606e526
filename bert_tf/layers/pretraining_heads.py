"""Pre-training heads: masked language model and next sentence prediction.

Shape legend: B batch, S sequence, P predictions, H hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from bert_tf.layers.activations import activation_function
from bert_tf.layers.base import ConfiguredLayer
from bert_tf.layers.normalization import LayerNormalization
from bert_tf.layers.positions import rows_at


@keras.saving.register_keras_serializable(package="bert_tf")
class MaskedLMHead(ConfiguredLayer):
    """Computes logits over the vocabulary at the masked positions.

    The masked positions are gathered first, so that the vocabulary projection, the most expensive operation of the
    model, runs over P rows per sequence instead of S. The output weights are tied to the token embedding and are also
    weights of this layer. With `vocabulary_multiple` set to 128, the projection is computed with zeros up to the next
    multiple, which suits the matrix units of accelerators; weights and logits keep the size of the vocabulary.

    Args:
        token_embedding: the encoder's `keras.layers.Embedding`.
        activation: one of `bert_tf.config.model.ACTIVATIONS`, usually the encoder's.
        layer_norm_epsilon: added to the variance, usually the encoder's.
        initializer_range: standard deviation of the truncated normal initializer.
        use_bias: whether the dense layer has a bias. The output has one in any case.
        normalization_bias: whether the normalization has a bias, beta.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        sequence_output: (B, S, H).
        mask_positions: (B, P) int32 in [0, S), not checked; padded with 0, with a loss weight of 0.

    Returns:
        (B, P, V) float32 under any dtype policy; the projection runs in the compute dtype.

    Example:
        >>> embedding = keras.layers.Embedding(100, 16)
        >>> head = bert_tf.layers.MaskedLMHead(embedding)
        >>> sequence_output = np.zeros((1, 8, 16), "float32")
        >>> keras.ops.shape(head(sequence_output, np.array([[2, 5]])))  # logits of two masked positions
        (1, 2, 100)
    """

    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"vocabulary_multiple": range(1, 2**16)}
    vocabulary_multiple = 1

    def __init__(
        self,
        token_embedding: keras.layers.Embedding,
        activation: str = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        normalization_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.token_embedding = token_embedding
        self.use_bias = use_bias
        self.normalization_bias = normalization_bias
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.dense = keras.layers.Dense(
            token_embedding.output_dim,
            activation=activation_function(activation),
            use_bias=use_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_epsilon, center=normalization_bias, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(self, sequence_output_shape, mask_positions_shape):
        """Creates the transform's weights and the output bias."""
        hidden_dim = self.token_embedding.output_dim
        if sequence_output_shape[-1] != hidden_dim:
            raise ValueError(
                f"the last axis of `sequence_output` must be as wide as the token embedding, {hidden_dim}. "
                f"Received: {tuple(sequence_output_shape)}"
            )
        if not self.token_embedding.built:
            self.token_embedding.build()
        self.dense.build((None, hidden_dim))
        self.layer_norm.build((None, hidden_dim))
        self.output_bias = self.add_weight(
            shape=(self.token_embedding.input_dim,), initializer="zeros", name="output_bias", autocast=False
        )
        self.built = True

    def call(self, sequence_output, mask_positions):
        """Returns the logits, (B, P, V) float32."""
        masked = rows_at(sequence_output, mask_positions)
        batch, predictions = ops.shape(masked)[:2]
        # With matrices instead of batches of them, the product reads the table in its memory layout.
        hidden = self.layer_norm(self.dense(ops.reshape(masked, (-1, masked.shape[-1]))))
        table = ops.cast(self.token_embedding.embeddings, self.compute_dtype)
        logits = ops.cast(_padded_products(hidden, table, self.vocabulary_multiple), "float32")
        if self.token_embedding.quantization_mode == "int8":
            logits = ops.divide(logits, self.token_embedding.embeddings_scale)
        logits = ops.add(logits, ops.cast(self.output_bias, "float32"))
        return ops.reshape(logits, (batch, predictions, self.token_embedding.input_dim))

    def compute_output_shape(self, sequence_output_shape, mask_positions_shape):
        """Returns (B, P, V)."""
        return (*mask_positions_shape, self.token_embedding.input_dim)

    def compute_output_spec(self, sequence_output, mask_positions):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        shape = self.compute_output_shape(sequence_output.shape, mask_positions.shape)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments; Keras restores the shared embedding as the same object."""
        return super().get_config() | {"token_embedding": keras.saving.serialize_keras_object(self.token_embedding)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MaskedLMHead:
        """Builds the layer from the result of `get_config`."""
        embedding = keras.saving.deserialize_keras_object(config["token_embedding"])
        return super().from_config(config | {"token_embedding": embedding})


def _padded_products(rows, table, multiple):
    """Returns `_products`, computed with a table of zeros up to the next multiple of `multiple` rows."""
    size = table.shape[0]
    if not (added := -size % multiple):
        return _products(rows, table)
    return _products(rows, ops.pad(table, ((0, added), (0, 0))))[:, :size]


@ops.custom_gradient
def _products(rows, table):
    """Multiplies rows (N, H) by the transposed table (V, H); returns (N, V).

    The gradient is hand-written, because automatic differentiation of the transposition copies the gradient of the
    whole table.
    """

    def gradient(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        return ops.matmul(upstream, table), ops.matmul(ops.transpose(upstream), rows)

    return ops.matmul(rows, ops.transpose(table)), gradient


@keras.saving.register_keras_serializable(package="bert_tf")
class NextSentenceHead(ConfiguredLayer):
    """Computes logits for "is the next sentence" (0) and "is a random sentence" (1), numbered as in the original.

    For packed rows (`data.input.packing`) it computes two logits per example.

    Args:
        initializer_range: standard deviation of the truncated normal initializer.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        pooled_output: (B, H), or (B, M, H) for M examples per row.

    Returns:
        (B, 2) or (B, M, 2) float32, computed in float32 under any dtype policy.

    Example:
        >>> logits = bert_tf.layers.NextSentenceHead()(np.zeros((3, 16), "float32"))
        >>> keras.ops.shape(logits)
        (3, 2)
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.dense = keras.layers.Dense(
            2,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
            dtype="float32",
            name="dense",
        )

    def build(self, pooled_output_shape):
        """Creates the dense layer's weights."""
        self.dense.build(pooled_output_shape)
        self.built = True

    def call(self, pooled_output):
        """Returns the logits, (..., 2) float32."""
        return self.dense(pooled_output)

    def compute_output_shape(self, pooled_output_shape):
        """Returns (..., 2)."""
        return (*pooled_output_shape[:-1], 2)

    def compute_output_spec(self, pooled_output):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        return keras.KerasTensor(self.compute_output_shape(pooled_output.shape), dtype="float32")
