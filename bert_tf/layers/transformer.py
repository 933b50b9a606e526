"""Transformer encoder layer, built from plain matrix products.

Shape legend: B batch, S sequence, H hidden, N heads, F inner width of the feed-forward network.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.layers.activations import activation_function
from bert_tf.layers.attention import SelfAttention, rows_of
from bert_tf.layers.base import ConfiguredLayer
from bert_tf.layers.dropout import SeededDropout
from bert_tf.layers.normalization import LayerNormalization


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
        left_to_right: whether a token sees only itself and earlier tokens.
        reach: distance up to which tokens see each other; None for any.
        max_length: length of the longest rows, from which `SelfAttention` sees whether to compute in parts.
        activation: activation of the feed-forward network, one of `bert_tf.config.model.ACTIVATIONS`.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal initializer.

    Call arguments:
        hidden: (B, S, H).
        padding_mask: (B, S) int32, 1 for tokens, 0 for padding, which is never seen.
        example_ids: (B, S) int32 of packed rows, whose tokens see only those with the same id.
        position_ids: (B, S) int32, for rotary positions; defaults to positions counted from the start of the row.
        training: whether to apply dropout.

    Returns:
        (B, S, H).

    Raises:
        ConfigError: for an unknown `normalization_order` or `feed_forward`, or `post` without `normalizes_attention`.

    Example:
        >>> hidden = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> padding_mask = np.array([[1, 1, 1], [1, 1, 0]])
        >>> layer = bert_tf.layers.TransformerLayer(num_heads=4, intermediate_dim=64)
        >>> keras.ops.shape(layer(hidden, padding_mask)), layer.count_params()
        ((2, 3, 16), 3280)
    """

    # Whether the backward pass computes the activations again to save memory.
    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"rematerialize": (False, True)}
    rematerialize = False

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
        left_to_right: bool = False,
        reach: int | None = None,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        _check_choice("normalization_order", normalization_order, ("post", "pre"))
        _check_choice("feed_forward", feed_forward, ("dense", "gated"))
        if normalization_order == "post" and not normalizes_attention:
            raise ConfigError(
                "`normalizes_attention` must be True with `normalization_order` = post. Received: False. Set "
                "`normalization_order` to pre."
            )
        super().__init__(autocast=False, **kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.normalization_order = normalization_order
        self.normalizes_attention = normalizes_attention
        self.feed_forward = feed_forward
        self.use_bias = use_bias
        self.normalization_bias = normalization_bias
        self.rotary_theta = rotary_theta
        self.left_to_right = left_to_right
        self.reach = reach
        self.max_length = max_length
        self.dropout = dropout
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.attention_dropout = attention_dropout
        policy = self.dtype_policy
        rate = dropout if attention_dropout is None else attention_dropout
        self.attention = SelfAttention(
            num_heads,
            rate,
            initializer_range,
            use_bias,
            rotary_theta,
            left_to_right,
            reach,
            max_length,
            dtype=policy,
            name="self_attention_layer",
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

    def build(self, hidden_shape, padding_mask_shape=None, example_ids_shape=None, position_ids_shape=None):
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

    def call(self, hidden, padding_mask, example_ids=None, position_ids=None, training=None):
        """Returns the layer's output."""
        hidden = ops.cast(hidden, self.compute_dtype)
        if not (training and self.rematerialize):
            return self._output(hidden, padding_mask, example_ids, position_ids, training)
        # The second computation takes the seeds of the first one.
        seeds = [(dropout, dropout.seed_generator.next()) for dropout in self._dropouts if dropout.rate]

        def output(hidden):
            with contextlib.ExitStack() as stack:
                for dropout, seed in seeds:
                    stack.enter_context(dropout.with_seed(seed))
                return self._output(hidden, padding_mask, example_ids, position_ids, training)

        return keras.remat(output)(hidden)

    @property
    def _dropouts(self) -> tuple[SeededDropout, ...]:
        return self.attention.dropout_layer, self.attended_dropout, self.feedforward_dropout

    def _output(self, hidden, padding_mask, example_ids, position_ids, training):
        is_pre = self.normalization_order == "pre"
        attended = self.attention(
            self.attention_inputs(hidden), padding_mask, example_ids, position_ids, training=training
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

    def compute_output_shape(
        self, hidden_shape, padding_mask_shape=None, example_ids_shape=None, position_ids_shape=None
    ):
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


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(
            f"`{name}` must be one of {', '.join(allowed)}. Received: {value!r}. Pass one of them, or leave it out."
        )


class AttentionWeights(keras.layers.Layer):
    """Returns attention weights, float32 (B, N, S, S): of each query position (third axis) over the key positions."""

    def __init__(self, layer: TransformerLayer, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.layer = layer

    def call(self, hidden, padding_mask):
        """Returns the attention weights."""
        inputs = self.layer.attention_inputs(ops.cast(hidden, self.layer.compute_dtype))
        return self.layer.attention.weights_of(inputs, padding_mask)

    def compute_output_spec(self, hidden, padding_mask):
        """Returns the symbolic output; float32, not the layer's compute dtype."""
        batch, length = hidden.shape[:2]
        return keras.KerasTensor((batch, self.layer.num_heads, length, length), dtype="float32")
