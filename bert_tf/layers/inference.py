"""Transformer layers optimized for serving: the same function with fewer operations and cache-friendly kernels.

`arrange_for_inference` and `quantize_weights` change a model in memory; the result cannot be trained or saved.

Shape legend: B batch, S sequence, H hidden, N heads, D = H / N, F inner width of the feed-forward network.
"""

from __future__ import annotations

import gc
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.layers.attention import (
    HeadProjection,
    SelfAttention,
    positions_or_counted,
    rotary_angles,
    rotated,
    rows_of,
    weighted_values,
)
from bert_tf.layers.transformer import TransformerLayer

# A matrix product iterates over the columns of its kernel. If the row stride is a multiple of this many bytes, as for
# all published widths, a column maps to a few sets of the first-level cache and evicts itself.
_ALIASED_BYTES = 1024
# One cache line of float32.
_SPARE_UNITS = 16
_QUANTIZED = (keras.layers.Dense, keras.layers.Embedding, HeadProjection)


class MergedAttention(keras.layers.Layer):
    """Self-attention for inference, with query, key and value of a built layer merged into one product."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__(dtype=attention.dtype_policy, name=attention.name)
        self.pattern = attention.pattern
        self.num_heads = attention.num_heads
        self.rotary_theta = attention.rotary_theta
        self.attention_output = attention.attention_output
        self.projections = self._merge_projections(attention)
        self.built = True

    def _merge_projections(self, attention: SelfAttention) -> HeadProjection:
        """Concatenates query, key and value, and adds a head of zeros if their rows would be aliased."""
        width, _, size = attention.query.kernel_shape
        parts = [part.get_weights() for part in (attention.query, attention.key, attention.value)]
        if _is_aliased(3 * width):
            parts.append([np.zeros((width, 1, size), np.float32), np.zeros((1, size), np.float32)][: len(parts[0])])
        kernels, *biases = zip(*parts, strict=True)
        kernel = np.concatenate(kernels, axis=1)
        merged = HeadProjection(
            kernel.shape, 1, use_bias=attention.use_bias, dtype=self.dtype_policy, name="projections"
        )
        merged.build((None, width))
        merged.set_weights([kernel, *map(np.concatenate, biases)])
        return merged

    def call(self, hidden, padding_mask, example_ids=None, position_ids=None, training=None):
        """Returns the attention output."""
        if training:
            raise ValueError("a layer arranged for inference cannot be trained. Received: training=True")
        rows, length = rows_of(hidden)
        _, heads, size = self.projections.kernel_shape
        projected = ops.reshape(self.projections(rows), (-1, length, heads, size))
        if self.rotary_theta is not None:
            turned = 2 * self.num_heads
            angles = rotary_angles(positions_or_counted(position_ids, length), size, self.rotary_theta)
            parts = [rotated(projected[:, :, :turned], angles), projected[:, :, turned:]]
            projected = ops.concatenate(parts, axis=2)

        def split(heads_axis: int, projected):
            return ops.split(projected, range(self.num_heads, heads, self.num_heads), axis=heads_axis)[:3]

        def whole():
            # With the heads as first axis, splitting them does not copy.
            query, key, value = split(0, ops.transpose(projected, (2, 0, 1, 3)))
            scores = ops.matmul(query * (1.0 / math.sqrt(size)), ops.transpose(key, (0, 1, 3, 2)))
            mask = ops.transpose(self.pattern.mask(padding_mask, example_ids), (1, 0, 2, 3))
            weights = ops.softmax(ops.cast(scores, "float32") + mask)
            context = ops.matmul(ops.cast(weights, self.compute_dtype), value)
            return ops.transpose(context, (1, 2, 0, 3))

        def in_parts():
            query, key, value = split(2, projected)
            if self.pattern.reach is None:
                return self.pattern.blocks(query, key, value, padding_mask, example_ids)
            return self.pattern.windows(weighted_values, query, key, value, padding_mask, example_ids)

        context = ops.reshape(self.pattern.by_length(length, whole, in_parts), (-1, hidden.shape[-1]))
        return ops.reshape(self.attention_output(context), (-1, length, hidden.shape[-1]))

    def save_own_variables(self, store) -> None:
        """Raises ConfigError: a saved model has the layers of its configuration, which are not arranged."""
        raise ConfigError(
            "a model arranged for inference cannot be saved. Received: a saved model or weights. Save it before "
            "`arrange_for_inference`, or export it with `bert_tf.export_preset`."
        )

    def compute_output_shape(
        self, hidden_shape, padding_mask_shape=None, example_ids_shape=None, position_ids_shape=None
    ):
        """Returns (B, S, H)."""
        return hidden_shape


def fused_gelu_approximate(inputs: Any) -> Any:
    """Computes `activations.gelu_approximate` with operations that TensorFlow fuses with a matrix product.

    In bfloat16, oneDNN rounds once after the fused operation; separate operations would each round.
    """
    return ops.gelu(inputs, approximate=True)


def arrange_for_inference(model: keras.Model) -> None:
    """Rearranges the weights of all transformer layers for fast matrix products; outputs do not change.

    Query, key and value are merged into one product. Its kernel and the kernel to F are padded with columns of zeros if
    their rows would share cache sets; no later operation reads these columns. The kernels back to H are unchanged. The
    activation is fused with the product before it. `benchmarks.serving` measures the effect. The model, which must not
    be quantized yet, cannot be trained or saved afterwards.

    Layer normalization is deliberately unchanged. TensorFlow 2.21 replaces two forms of it by a single oneDNN
    operation: one always uses an epsilon of 0.001, the other is several times slower without oneDNN.
    """
    for layer in _transformer_layers(model):
        _replace(layer, "attention", MergedAttention(layer.attention))
        if layer.activation == "gelu_approximate" and not layer.gates:
            layer.inner.activation = fused_gelu_approximate
        width, inner = layer.inner.kernel.shape
        # A wider kernel would move the gates away from the middle.
        if _is_aliased(inner) and not layer.gates:
            _replace(layer, "inner", _widen(layer.inner, width, inner + _SPARE_UNITS))
            _replace(layer, "outer", _widen(layer.outer, inner + _SPARE_UNITS, width))


def quantize_weights(model: keras.Model) -> None:
    """Quantizes kernels and the token table to int8, with a scale per output or token; computes in float32 as before.

    Activations are not quantized: on the CPU, int8 products of TensorFlow are slower than float32 products, and
    quantizing only the weights loses less accuracy. The model may be arranged for inference or not.
    """
    weights_only = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    # Keras runs a garbage collection after every layer, which would take most of the time. Freezing excludes the
    # existing objects from these collections. Programs freeze the objects of their imports before (see
    # entry/quiet.py); unfreezing would unfreeze those too.
    frozen_before = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        model.quantize("int8", config=weights_only, filters=lambda layer: isinstance(layer, _QUANTIZED))
    finally:
        if not frozen_before:
            gc.unfreeze()


def _transformer_layers(model: keras.Model) -> list[TransformerLayer]:
    layers = []
    for layer in model.layers:
        if isinstance(layer, TransformerLayer):
            layers.append(layer)
        elif isinstance(layer, keras.Model):
            layers += _transformer_layers(layer)
    return layers


def _is_aliased(units: int) -> bool:
    return units * np.dtype(np.float32).itemsize % _ALIASED_BYTES == 0


def _widen(dense: keras.layers.Dense, inputs: int, units: int) -> keras.layers.Dense:
    """Returns a copy of `dense` with more inputs or units; the additional weights are zero."""
    wider = keras.layers.Dense(
        units, activation=dense.activation, use_bias=dense.use_bias, dtype=dense.dtype_policy, name=dense.name
    )
    wider.build((None, inputs))
    wider.set_weights(
        [
            np.pad(source.numpy(), [(0, new - old) for new, old in zip(weight.shape, source.shape, strict=True)])
            for weight, source in zip(wider.weights, dense.weights, strict=True)
        ]
    )
    return wider


def _replace(owner: keras.layers.Layer, name: str, layer: keras.layers.Layer) -> None:
    """Replaces a sublayer. Keras locks built layers; its own `quantize` unlocks them the same way."""
    owner._tracker.unlock()
    owner._tracker.untrack(getattr(owner, name))
    setattr(owner, name, layer)
    owner._tracker.lock()
