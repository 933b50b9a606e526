"""Multi-head attention, built from plain matrix products.

Shape legend: B batch, S sequence, H hidden, N heads, D = H / N; T = B S rows of hidden states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops
from keras.backend import is_int_dtype

from bert_tf.config import ConfigError
from bert_tf.layers.attention_pattern import AttentionPattern
from bert_tf.layers.base import ConfiguredLayer
from bert_tf.layers.dropout import SeededDropout
from bert_tf.layers.lora import LowRankKernel


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

    def save_own_variables(self, store) -> None:
        """Saves kernel and bias. Raises ConfigError for a quantized kernel, which no loaded model would have."""
        if self.kernel_scale is not None:
            raise ConfigError(
                "a quantized model cannot be saved. Received: int8 kernels. Save it before it is quantized, or export "
                "it with `bert_tf.export_preset`."
            )
        super().save_own_variables(store)

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
        left_to_right: whether a token sees only itself and earlier tokens ("LTR" in Table 5 of the paper).
        reach: distance up to which tokens see each other, such as 64; None for any.
        max_length: length of the longest rows; None for any. Rows of more than 512 tokens, or four windows of `reach`,
            are computed in parts, so that memory grows with S instead of S².

    Call arguments:
        hidden: (B, S, H).
        padding_mask: (B, S) int32, 1 for tokens, 0 for padding, which is never seen.
        example_ids: (B, S) int32 of packed rows (`data.input.packing`), whose tokens see only those with the same id.
        position_ids: (B, S) int32, for rotations; defaults to positions counted from the start of the row.
        training: whether to apply dropout.

    Returns:
        (B, S, H).

    Example:
        >>> hidden = np.random.default_rng(1).normal(size=(2, 3, 16)).astype("float32")
        >>> padding_mask = np.array([[1, 1, 1], [1, 1, 0]])
        >>> keras.ops.shape(bert_tf.layers.SelfAttention(num_heads=4)(hidden, padding_mask))
        (2, 3, 16)
    """

    # The kernels have the same weights and results.
    settings: ClassVar[Mapping[str, Sequence[Any]]] = {"kernel": ("plain", "fused")}
    kernel = "plain"

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        rotary_theta: float | None = None,
        left_to_right: bool = False,
        reach: int | None = None,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.rotary_theta = rotary_theta
        self.left_to_right = left_to_right
        self.reach = reach
        self.max_length = max_length
        self.pattern = AttentionPattern(left_to_right, reach, max_length)
        self.dropout_layer = SeededDropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, hidden_shape, padding_mask_shape=None, example_ids_shape=None, position_ids_shape=None):
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

    def call(self, hidden, padding_mask, example_ids=None, position_ids=None, training=None):
        """Returns the attention output."""
        _check_padding_mask(padding_mask, hidden)
        rows, length = rows_of(hidden)
        query, key, value = self._heads(rows, length, position_ids)
        # Drawn here, because drawing changes a state, which only one branch of a condition would.
        seed = self.dropout_layer.next_seed() if training and self.dropout else None

        drop = self.dropout_layer.with_mask_of

        def kernel(query, key, value, mask):
            if self.kernel == "fused":
                return ops.dot_product_attention(query, key, value, mask=ops.greater_equal(mask, 0.0))
            return weighted_values(query, key, value, mask, drop, seed)

        def whole():
            return kernel(query, key, value, self.pattern.mask(padding_mask, example_ids))

        def parts():
            if self.reach is not None:
                return self.pattern.windows(kernel, query, key, value, padding_mask, example_ids)
            return self.pattern.blocks(query, key, value, padding_mask, example_ids, drop, seed)

        # The fused kernel works in blocks of its own.
        is_whole = self.kernel == "fused" and self.reach is None
        context = whole() if is_whole else self.pattern.by_length(length, whole, parts, bool(training))
        output = self.attention_output(ops.reshape(context, (-1, hidden.shape[-1])))
        return ops.reshape(output, (-1, length, hidden.shape[-1]))

    def weights_of(self, hidden, padding_mask, example_ids=None, position_ids=None):
        """Returns the attention weights, float32 (B, N, S, S)."""
        rows, length = rows_of(hidden)
        query, key, _ = self._heads(rows, length, position_ids)
        return attention_weights(query, key, self.pattern.mask(padding_mask, example_ids))

    def _heads(self, rows, length, position_ids):
        """Returns queries, keys and values, (B, S, N, D), with rotary positions if the layer has them."""
        shape = (-1, length, self.num_heads, rows.shape[-1] // self.num_heads)
        heads = [ops.reshape(projection(rows), shape) for projection in (self.query, self.key, self.value)]
        if self.rotary_theta is None:
            return heads
        angles = rotary_angles(positions_or_counted(position_ids, length), shape[-1], self.rotary_theta)
        return [rotated(heads[0], angles), rotated(heads[1], angles), heads[2]]

    def compute_output_shape(
        self, hidden_shape, padding_mask_shape=None, example_ids_shape=None, position_ids_shape=None
    ):
        """Returns (B, S, H)."""
        return hidden_shape


def _check_padding_mask(padding_mask, hidden):
    shape = getattr(padding_mask, "shape", None)
    length = hidden.shape[1]
    if shape is None or len(shape) != 2 or (None not in (shape[1], length) and shape[1] != length):
        raise ValueError(
            f"`padding_mask` must have shape (B, S) with S = {length}: 1 for tokens, 0 for padding. "
            f"Received: {padding_mask if shape is None else tuple(shape)}. Layers make attention masks themselves."
        )
    if not is_int_dtype(padding_mask.dtype) and keras.backend.standardize_dtype(padding_mask.dtype) != "bool":
        raise ValueError(
            f"`padding_mask` must hold integers or booleans: 1 for tokens, 0 for padding. "
            f"Received: {keras.backend.standardize_dtype(padding_mask.dtype)}. Layers make attention masks themselves."
        )


def attention_weights(query, key, mask):
    """Returns the attention weights, float32 (B, N, Q, K).

    Args:
        query: (B, Q, N, D).
        key: (B, K, N, D).
        mask: float32, added to the scores; broadcast to (B, N, Q, K).
    """
    # Keys are transposed for the product; scaling the queries is cheaper than scaling the scores.
    query = ops.transpose(query, (0, 2, 1, 3)) * (1.0 / math.sqrt(query.shape[-1]))
    scores = ops.matmul(query, ops.transpose(key, (0, 2, 3, 1)))
    return ops.softmax(ops.cast(scores, "float32") + mask)


def weighted_values(query, key, value, mask, drop: Callable[..., Any] | None = None, seed=None):
    """Returns the values, (B, Q, N, D), weighted by attention; `drop` of the weights and a seed is their dropout."""
    weights = ops.cast(attention_weights(query, key, mask), value.dtype)
    values = ops.transpose(value, (0, 2, 1, 3))
    return ops.transpose(
        ops.matmul(weights if drop is None or seed is None else drop(weights, seed), values), (0, 2, 1, 3)
    )


def positions_or_counted(position_ids, length):
    """Returns positions, (B, S), or those counted from the start of a row, (1, S), if there are none."""
    return ops.expand_dims(ops.arange(length, dtype="int32"), 0) if position_ids is None else position_ids


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
