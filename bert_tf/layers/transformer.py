"""Transformer encoder layer, built from plain matrix products.

Shape legend: B batch, S sequence, H hidden, N heads, D = H / N, F inner width of the feed-forward network.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import keras
from keras import ops

from bert_tf.layers.activations import activation_function
from bert_tf.layers.base import ConfiguredLayer
from bert_tf.layers.dropout import SeededDropout
from bert_tf.layers.lora import LowRankKernel
from bert_tf.layers.normalization import LayerNormalization


@keras.saving.register_keras_serializable(package="bert_tf")
class HeadProjection(LowRankKernel, ConfiguredLayer):
    """Projects all tokens, (T, H), to or from the attention heads, with a separate kernel axis for the heads.

    The projection is a single matrix product; `keras.layers.MultiHeadAttention` multiplies sequence by sequence, which
    is slower. `kernel_shape` is (H, N, D) for projections to the heads, (N, D, H) for projections back. `inputs` is the
    number of leading kernel axes that belong to the input, 1 or 2.
    """

    def __init__(
        self, kernel_shape: tuple[int, ...], inputs: int, initializer_range: float = 0.02, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_shape = tuple(kernel_shape)
        self.inputs = inputs
        self.initializer_range = initializer_range
        self.kernel_scale: Any = None

    def build(self, rows_shape):
        """Creates the kernel and the bias."""
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        self.kernel = self.add_weight(shape=self.kernel_shape, initializer=initializer, name="kernel")
        self.bias = self.add_weight(shape=self.kernel_shape[self.inputs :], initializer="zeros", name="bias")
        self.built = True

    def call(self, rows):
        """Returns the projected rows."""
        products = ops.matmul(rows, ops.reshape(self.kernel, (self.kernel_width, -1)))
        if self.kernel_scale is not None:
            products = ops.divide(products, self.kernel_scale)
        if self.lora_enabled:
            products = ops.add(products, self.low_rank_products(rows))
        return ops.add(products, ops.reshape(self.bias, (-1,)))

    def quantize(self, mode: str, type_check: bool = True, config: Any = None) -> None:
        """Quantizes the kernel to int8 with a scale per output, for inference, when `keras.Model.quantize` calls it."""
        if mode != "int8":
            raise NotImplementedError(f"`mode` must be `int8`. Received: {mode!r}")
        kernel = ops.reshape(self.kernel, (self.kernel_width, -1))
        values, scale = keras.quantizers.abs_max_quantize(kernel, axis=0, to_numpy=True)
        del self.kernel
        options = {"initializer": "zeros", "trainable": False}
        self.kernel = self.add_weight(shape=self.kernel_shape, dtype="int8", name="kernel", **options)
        self.kernel_scale = self.add_weight(shape=(kernel.shape[1],), name="kernel_scale", **options)
        self.kernel.assign(ops.reshape(values, self.kernel_shape))
        self.kernel_scale.assign(ops.squeeze(scale, axis=0))

    @property
    def kernel_width(self) -> int:
        """Input width."""
        return math.prod(self.kernel_shape[: self.inputs])

    def compute_output_shape(self, rows_shape):
        """Returns (T, H)."""
        return (rows_shape[0], math.prod(self.kernel_shape[self.inputs :]))


@keras.saving.register_keras_serializable(package="bert_tf")
class SelfAttention(ConfiguredLayer):
    """Multi-head scaled dot-product attention (arXiv 1706.03762, 3.2), with the softmax in float32.

    Args:
        num_heads: N; divides H.
        dropout: dropout rate on the attention weights.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        hidden: (B, S, H).
        attention_mask: float32, added to the attention scores; see `AttentionMask`.
        training: whether to apply dropout.

    Returns:
        (B, S, H).

    Example:
        >>> hidden = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> mask = bert_tf.layers.AttentionMask()(np.array([[1, 1, 1], [1, 1, 0]]))
        >>> keras.ops.shape(bert_tf.layers.SelfAttention(num_heads=4)(hidden, mask))
        (2, 3, 16)
    """

    def __init__(self, num_heads: int, dropout: float = 0.1, initializer_range: float = 0.02, **kwargs: Any) -> None:
        # The mask is float32 under every dtype policy.
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.dropout_layer = SeededDropout(dropout, dtype=self.dtype_policy, name="dropout")
        # A setting of the computation, not of the architecture: both kernels have the same weights and results.
        self.kernel = "plain"

    def build(self, hidden_shape, attention_mask_shape=None):
        """Creates the four projections."""
        width, heads = hidden_shape[-1], self.num_heads
        per_head = (heads, width // heads)

        def projection(name: str, kernel_shape: tuple[int, ...], inputs: int) -> HeadProjection:
            layer = HeadProjection(kernel_shape, inputs, self.initializer_range, dtype=self.dtype_policy, name=name)
            layer.build((None, width))
            return layer

        self.query, self.key, self.value = (
            projection(name, (width, *per_head), 1) for name in ("query", "key", "value")
        )
        self.attention_output = projection("attention_output", (*per_head, width), 2)
        self.built = True

    def call(self, hidden, attention_mask, training=None):
        """Returns the attention output."""
        rows, length = rows_of(hidden)
        if self.kernel == "fused":
            context = self._fused(rows, length, attention_mask)
        else:
            context = self._plain(rows, length, attention_mask, training)
        output = self.attention_output(ops.reshape(context, (-1, hidden.shape[-1])))
        return ops.reshape(output, (-1, length, hidden.shape[-1]))

    def _plain(self, rows, length, attention_mask, training):
        """Returns the weighted values, (B, S, N, D), through the attention weights."""
        weights = ops.cast(self._weights(rows, length, attention_mask), self.compute_dtype)
        weights = self.dropout_layer(weights, training=training)
        values = self._heads(self.value, rows, length, (0, 2, 1, 3))
        return ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3))

    def _fused(self, rows, length, attention_mask):
        """Returns the weighted values, (B, S, N, D), from the attention kernel of the backend."""
        query, key, value = (
            self._heads(projection, rows, length, (0, 1, 2, 3)) for projection in (self.query, self.key, self.value)
        )
        return ops.dot_product_attention(query, key, value, mask=ops.greater_equal(attention_mask, 0.0))

    def weights_of(self, hidden, attention_mask):
        """Returns the attention weights, float32 (B, N, S, S)."""
        rows, length = rows_of(hidden)
        return self._weights(rows, length, attention_mask)

    def _weights(self, rows, length, attention_mask):
        # Keys are transposed for the product; scaling the queries is cheaper than scaling the scores.
        query = self._heads(self.query, rows, length, (0, 2, 1, 3))
        query = query * (1.0 / math.sqrt(rows.shape[-1] // self.num_heads))
        scores = ops.matmul(query, self._heads(self.key, rows, length, (0, 2, 3, 1)))
        return ops.softmax(ops.cast(scores, "float32") + attention_mask)

    def _heads(self, projection, rows, length, axes):
        """Splits a projection into heads, (B, S, N, D), and permutes its axes."""
        shape = (-1, length, self.num_heads, rows.shape[-1] // self.num_heads)
        return ops.transpose(ops.reshape(projection(rows), shape), axes)

    def compute_output_shape(self, hidden_shape, attention_mask_shape=None):
        """Returns (B, S, H)."""
        return hidden_shape


@keras.saving.register_keras_serializable(package="bert_tf")
class TransformerLayer(ConfiguredLayer):
    """Self-attention and a feed-forward network, each followed by dropout, a residual connection and normalization.

    The weights have the names and shapes of `keras_hub.layers.TransformerEncoder`; this layer is faster.

    Args:
        num_heads: N; divides H.
        intermediate_dim: F.
        dropout: dropout rate on attention weights and on the outputs of both sub-layers.
        attention_dropout: dropout rate on attention weights; defaults to `dropout`.
        activation: activation of the feed-forward network, one of `bert_tf.config.model.ACTIVATIONS`.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        hidden: (B, S, H).
        attention_mask: float32, added to the attention scores of all heads; see `AttentionMask`.
        training: whether to apply dropout.

    Returns:
        (B, S, H).

    Example:
        >>> hidden = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> mask = bert_tf.layers.AttentionMask()(np.array([[1, 1, 1], [1, 1, 0]]))
        >>> layer = bert_tf.layers.TransformerLayer(num_heads=4, intermediate_dim=64)
        >>> keras.ops.shape(layer(hidden, mask)), layer.count_params()
        ((2, 3, 16), 3280)
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        activation: str = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        attention_dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention_dropout = attention_dropout
        # A setting of the computation: whether the backward pass computes the activations again to save memory.
        self.rematerialize = False
        policy = self.dtype_policy
        rate = dropout if attention_dropout is None else attention_dropout
        self.attention = SelfAttention(num_heads, rate, initializer_range, dtype=policy, name="self_attention_layer")
        self.attended_dropout = SeededDropout(dropout, dtype=policy, name="self_attention_dropout")
        self.attention_norm = LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=policy, name="self_attention_layer_norm"
        )
        self.inner = self._dense(intermediate_dim, activation_function(activation), "feedforward_intermediate_dense")
        self.feedforward_dropout = SeededDropout(dropout, dtype=policy, name="feedforward_dropout")
        self.feedforward_norm = LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=policy, name="feedforward_layer_norm"
        )

    def build(self, hidden_shape, attention_mask_shape=None):
        """Creates all weights."""
        width = hidden_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                f"the last axis of `hidden` must be a multiple of `num_heads`. Received: {width} and {self.num_heads}"
            )
        self.attention.build(hidden_shape)
        self.attention_norm.build(hidden_shape)
        self.inner.build(hidden_shape)
        self.outer = self._dense(width, None, "feedforward_output_dense")
        self.outer.build((*hidden_shape[:-1], self.intermediate_dim))
        self.feedforward_norm.build(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask, training=None):
        """Returns the layer's output."""
        hidden = ops.cast(hidden, self.compute_dtype)
        if not (training and self.rematerialize):
            return self._output(hidden, attention_mask, training)
        # The second computation takes the seeds of the first one.
        seeds = [(dropout, dropout.seed_generator.next()) for dropout in self._dropouts if dropout.rate]

        def output(hidden, attention_mask):
            with contextlib.ExitStack() as stack:
                for dropout, seed in seeds:
                    stack.enter_context(dropout.with_seed(seed))
                return self._output(hidden, attention_mask, training)

        return keras.remat(output)(hidden, attention_mask)

    @property
    def _dropouts(self) -> tuple[SeededDropout, ...]:
        return self.attention.dropout_layer, self.attended_dropout, self.feedforward_dropout

    def _output(self, hidden, attention_mask, training):
        attended = self.attended_dropout(self.attention(hidden, attention_mask, training=training), training=training)
        hidden = self.attention_norm(hidden + attended)
        rows, length = rows_of(hidden)
        transformed = self.feedforward_dropout(self.outer(self.inner(rows)), training=training)
        return ops.reshape(self.feedforward_norm(rows + transformed), (-1, length, hidden.shape[-1]))

    def compute_output_shape(self, hidden_shape, attention_mask_shape=None):
        """Returns (B, S, H)."""
        return hidden_shape

    def _dense(self, units: int, activation: Any, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )


def rows_of(hidden):
    """Returns hidden states as rows (B * S, H), for which TensorFlow fuses products, biases and additions, and S."""
    return ops.reshape(hidden, (-1, hidden.shape[-1])), ops.shape(hidden)[1]


class AttentionWeights(keras.layers.Layer):
    """Returns attention weights, float32 (B, N, S, S): of each query position (third axis) over the key positions."""

    def __init__(self, layer: TransformerLayer, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.layer = layer

    def call(self, hidden, attention_mask):
        """Returns the attention weights."""
        return self.layer.attention.weights_of(ops.cast(hidden, self.layer.compute_dtype), attention_mask)

    def compute_output_spec(self, hidden, attention_mask):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        batch, length = hidden.shape[:2]
        return keras.KerasTensor((batch, self.layer.num_heads, length, length), dtype="float32")
