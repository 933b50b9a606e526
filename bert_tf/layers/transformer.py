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
        self,
        kernel_shape: tuple[int, ...],
        inputs: int,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_shape = tuple(kernel_shape)
        self.inputs = inputs
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.bias: Any = None
        self.kernel_scale: Any = None

    def build(self, rows_shape):
        """Creates the kernel, and the bias with `use_bias`."""
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        self.kernel = self.add_weight(shape=self.kernel_shape, initializer=initializer, name="kernel")
        if self.use_bias:
            self.bias = self.add_weight(shape=self.kernel_shape[self.inputs :], initializer="zeros", name="bias")
        self.built = True

    def call(self, rows):
        """Returns the projected rows."""
        products = ops.matmul(rows, ops.reshape(self.kernel, (self.kernel_width, -1)))
        if self.kernel_scale is not None:
            products = ops.divide(products, self.kernel_scale)
        if self.lora_enabled:
            products = ops.add(products, self.low_rank_products(rows))
        return products if self.bias is None else ops.add(products, ops.reshape(self.bias, (-1,)))

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
        use_bias: whether the projections have biases.
        rotary_theta: base of the angles by which queries and keys are rotated (`rotated`); None for no rotation.

    Call arguments:
        hidden: (B, S, H).
        attention_mask: float32, added to the attention scores; see `AttentionMask`.
        position_ids: (B, S) int32, for rotations; defaults to positions counted from the start of the row.
        training: whether to apply dropout.

    Returns:
        (B, S, H).

    Example:
        >>> hidden = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> mask = bert_tf.layers.AttentionMask()(np.array([[1, 1, 1], [1, 1, 0]]))
        >>> keras.ops.shape(bert_tf.layers.SelfAttention(num_heads=4)(hidden, mask))
        (2, 3, 16)
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        rotary_theta: float | None = None,
        **kwargs: Any,
    ) -> None:
        # The mask is float32 under every dtype policy.
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.rotary_theta = rotary_theta
        self.dropout_layer = SeededDropout(dropout, dtype=self.dtype_policy, name="dropout")
        # A setting of the computation, not of the architecture: both kernels have the same weights and results.
        self.kernel = "plain"

    def build(self, hidden_shape, attention_mask_shape=None, position_ids_shape=None):
        """Creates the four projections."""
        width, heads = hidden_shape[-1], self.num_heads
        per_head = (heads, width // heads)

        def projection(name: str, kernel_shape: tuple[int, ...], inputs: int) -> HeadProjection:
            layer = HeadProjection(
                kernel_shape, inputs, self.initializer_range, self.use_bias, dtype=self.dtype_policy, name=name
            )
            layer.build((None, width))
            return layer

        self.query, self.key, self.value = (
            projection(name, (width, *per_head), 1) for name in ("query", "key", "value")
        )
        self.attention_output = projection("attention_output", (*per_head, width), 2)
        self.built = True

    def call(self, hidden, attention_mask, position_ids=None, training=None):
        """Returns the attention output."""
        rows, length = rows_of(hidden)
        angles = self._angles(length, position_ids)
        if self.kernel == "fused":
            context = self._fused(rows, length, attention_mask, angles)
        else:
            context = self._plain(rows, length, attention_mask, angles, training)
        output = self.attention_output(ops.reshape(context, (-1, hidden.shape[-1])))
        return ops.reshape(output, (-1, length, hidden.shape[-1]))

    def _plain(self, rows, length, attention_mask, angles, training):
        """Returns the weighted values, (B, S, N, D), through the attention weights."""
        weights = ops.cast(self._weights(rows, length, attention_mask, angles), self.compute_dtype)
        weights = self.dropout_layer(weights, training=training)
        values = self._heads(self.value, rows, length, (0, 2, 1, 3))
        return ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3))

    def _fused(self, rows, length, attention_mask, angles):
        """Returns the weighted values, (B, S, N, D), from the attention kernel of the backend."""
        axes = (0, 1, 2, 3)
        query, key = (self._heads(projection, rows, length, axes, angles) for projection in (self.query, self.key))
        value = self._heads(self.value, rows, length, axes)
        return ops.dot_product_attention(query, key, value, mask=ops.greater_equal(attention_mask, 0.0))

    def weights_of(self, hidden, attention_mask, position_ids=None):
        """Returns the attention weights, float32 (B, N, S, S)."""
        rows, length = rows_of(hidden)
        return self._weights(rows, length, attention_mask, self._angles(length, position_ids))

    def _weights(self, rows, length, attention_mask, angles):
        # Keys are transposed for the product; scaling the queries is cheaper than scaling the scores.
        query = self._heads(self.query, rows, length, (0, 2, 1, 3), angles)
        query = query * (1.0 / math.sqrt(rows.shape[-1] // self.num_heads))
        scores = ops.matmul(query, self._heads(self.key, rows, length, (0, 2, 3, 1), angles))
        return ops.softmax(ops.cast(scores, "float32") + attention_mask)

    def _angles(self, length, position_ids):
        """Returns the angles of the rotations, float32 (B or 1, S, 1, D / 2); None without rotations."""
        if self.rotary_theta is None:
            return None
        if position_ids is None:
            position_ids = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
        return rotary_angles(position_ids, self.query.kernel_shape[-1], self.rotary_theta)

    def _heads(self, projection, rows, length, axes, angles=None):
        """Splits a projection into heads, (B, S, N, D), rotates them by `angles`, and permutes their axes."""
        shape = (-1, length, self.num_heads, rows.shape[-1] // self.num_heads)
        heads = ops.reshape(projection(rows), shape)
        return ops.transpose(heads if angles is None else rotated(heads, angles), axes)

    def compute_output_shape(self, hidden_shape, attention_mask_shape=None, position_ids_shape=None):
        """Returns (B, S, H)."""
        return hidden_shape


@keras.saving.register_keras_serializable(package="bert_tf")
class TransformerLayer(ConfiguredLayer):
    """Self-attention and a feed-forward network, each followed by dropout, a residual connection and normalization.

    With `normalization_order` = `pre`, each is normalized before it instead, and the residual connection is not. By
    default the weights have the names and shapes of `keras_hub.layers.TransformerEncoder`; this layer is faster.

    Args:
        num_heads: N; divides H.
        intermediate_dim: F.
        dropout: dropout rate on attention weights and on the outputs of both sub-layers.
        attention_dropout: dropout rate on attention weights; defaults to `dropout`.
        normalization_order: `post` or `pre`.
        normalizes_attention: whether attention is normalized; with `pre` and normalized embeddings, the first layer
            need not.
        feed_forward: `dense`, or `gated` (arXiv 2002.05202): the activation of one half of a projection to 2 F is
            multiplied by the other half.
        use_bias: whether attention and feed-forward have biases.
        normalization_bias: whether layer normalization has a bias, beta.
        rotary_theta: base of the angles of rotary positions; None for none.
        activation: activation of the feed-forward network, one of `bert_tf.config.model.ACTIVATIONS`.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        hidden: (B, S, H).
        attention_mask: float32, added to the attention scores of all heads; see `AttentionMask`.
        position_ids: (B, S) int32, for rotary positions; defaults to positions counted from the start of the row.
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
        normalization_order: str = "post",
        normalizes_attention: bool = True,
        feed_forward: str = "dense",
        use_bias: bool = True,
        normalization_bias: bool = True,
        rotary_theta: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.normalization_order = normalization_order
        self.normalizes_attention = normalizes_attention
        self.feed_forward = feed_forward
        self.use_bias = use_bias
        self.normalization_bias = normalization_bias
        self.rotary_theta = rotary_theta
        self.dropout = dropout
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention_dropout = attention_dropout
        # A setting of the computation: whether the backward pass computes the activations again to save memory.
        self.rematerialize = False
        policy = self.dtype_policy
        rate = dropout if attention_dropout is None else attention_dropout
        self.attention = SelfAttention(
            num_heads, rate, initializer_range, use_bias, rotary_theta, dtype=policy, name="self_attention_layer"
        )
        self.attended_dropout = SeededDropout(dropout, dtype=policy, name="self_attention_dropout")
        norm = {"epsilon": layer_norm_epsilon, "center": normalization_bias, "dtype": policy}
        self.attention_norm = LayerNormalization(**norm, name="self_attention_layer_norm")
        self.gates = feed_forward == "gated"
        function = activation_function(activation)
        self.gate_activation = function if self.gates else None
        self.inner = self._dense(
            intermediate_dim * (2 if self.gates else 1),
            None if self.gates else function,
            "feedforward_intermediate_dense",
        )
        self.feedforward_dropout = SeededDropout(dropout, dtype=policy, name="feedforward_dropout")
        self.feedforward_norm = LayerNormalization(**norm, name="feedforward_layer_norm")

    def build(self, hidden_shape, attention_mask_shape=None, position_ids_shape=None):
        """Creates all weights."""
        width = hidden_shape[-1]
        if width % self.num_heads:
            raise ValueError(
                f"the last axis of `hidden` must be a multiple of `num_heads`. Received: {width} and {self.num_heads}"
            )
        self.attention.build(hidden_shape)
        if self.normalizes_attention:
            self.attention_norm.build(hidden_shape)
        self.inner.build(hidden_shape)
        self.outer = self._dense(width, None, "feedforward_output_dense")
        self.outer.build((*hidden_shape[:-1], self.intermediate_dim))
        self.feedforward_norm.build(hidden_shape)
        self.built = True

    def call(self, hidden, attention_mask, position_ids=None, training=None):
        """Returns the layer's output."""
        hidden = ops.cast(hidden, self.compute_dtype)
        if not (training and self.rematerialize):
            return self._output(hidden, attention_mask, position_ids, training)
        # The second computation takes the seeds of the first one.
        seeds = [(dropout, dropout.seed_generator.next()) for dropout in self._dropouts if dropout.rate]

        def output(hidden, attention_mask):
            with contextlib.ExitStack() as stack:
                for dropout, seed in seeds:
                    stack.enter_context(dropout.with_seed(seed))
                return self._output(hidden, attention_mask, position_ids, training)

        return keras.remat(output)(hidden, attention_mask)

    @property
    def _dropouts(self) -> tuple[SeededDropout, ...]:
        return self.attention.dropout_layer, self.attended_dropout, self.feedforward_dropout

    def _output(self, hidden, attention_mask, position_ids, training):
        is_pre = self.normalization_order == "pre"
        attended = self.attention(
            self.attention_inputs(hidden), attention_mask, position_ids=position_ids, training=training
        )
        hidden = hidden + self.attended_dropout(attended, training=training)
        if not is_pre:
            hidden = self.attention_norm(hidden)
        rows, length = rows_of(hidden)
        inner = self.inner(self.feedforward_norm(rows) if is_pre else rows)
        if self.gate_activation is not None:
            values, gates = ops.split(inner, 2, axis=-1)
            inner = self.gate_activation(values) * gates
        rows = rows + self.feedforward_dropout(self.outer(inner), training=training)
        if not is_pre:
            rows = self.feedforward_norm(rows)
        return ops.reshape(rows, (-1, length, hidden.shape[-1]))

    def attention_inputs(self, hidden):
        """Returns the hidden states that attention reads: normalized with the order `pre`."""
        return (
            self.attention_norm(hidden) if self.normalization_order == "pre" and self.normalizes_attention else hidden
        )

    def compute_output_shape(self, hidden_shape, attention_mask_shape=None, position_ids_shape=None):
        """Returns (B, S, H)."""
        return hidden_shape

    def _dense(self, units: int, activation: Any, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )


def rotary_angles(position_ids, size: int, theta: float):
    """Returns the angles of positions, float32 (B, S, 1, D / 2): `position / theta ** (2 i / D)` (arXiv 2104.09864).

    Args:
        position_ids: (B, S) integers.
        size: D, width of a head.
        theta: base of the angles.
    """
    frequencies = [theta ** (-2.0 * index / size) for index in range(size // 2)]
    positions = ops.cast(position_ids, "float32")[:, :, None, None]
    return positions * ops.convert_to_tensor(frequencies, "float32")


def rotated(heads, angles):
    """Rotates pairs of elements i and i + D / 2 of heads (B, S, N, D) by `angles`, in float32; keeps the dtype."""
    first, second = ops.split(ops.cast(heads, "float32"), 2, axis=-1)
    cosine, sine = ops.cos(angles), ops.sin(angles)
    parts = [first * cosine - second * sine, second * cosine + first * sine]
    return ops.cast(ops.concatenate(parts, axis=-1), heads.dtype)


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
        inputs = self.layer.attention_inputs(ops.cast(hidden, self.layer.compute_dtype))
        return self.layer.attention.weights_of(inputs, attention_mask)

    def compute_output_spec(self, hidden, attention_mask):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        batch, length = hidden.shape[:2]
        return keras.KerasTensor((batch, self.layer.num_heads, length, length), dtype="float32")
