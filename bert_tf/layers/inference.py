"""Transformer layers as they are served: the same function, of fewer operations, their kernels laid out for the cache.

Nothing here is trained or saved; `arrange_for_inference` and `quantize_weights` change a model in memory.

Shape legend: B batch, S sequence, H hidden, N heads, D = H / N, F inner width of the feed-forward network.
"""

from __future__ import annotations

import gc
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.layers.transformer import HeadProjection, SelfAttention, TransformerLayer, rows_of

# A product walks down the columns of its kernel. Where rows begin a multiple of this many bytes apart, as those of all
# published widths do, a column falls into a few sets of the first-level cache, and pushes itself out of it.
_ALIASED_BYTES = 1024
# One line of the cache.
_SPARE_UNITS = 16
_QUANTIZED = (keras.layers.Dense, keras.layers.Embedding, HeadProjection)


class MergedAttention(keras.layers.Layer):
    """`SelfAttention` whose query, key and value are one product, without dropout.

    Args:
        attention: a built layer; its last projection is shared, the others are copied.

    Call arguments:
        hidden: (B, S, H).
        attention_mask: float32, added to the scores; see `AttentionMask`.
        training: must not be true.

    Returns:
        (B, S, H).
    """

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__(autocast=False, dtype=attention.dtype_policy, name=attention.name)
        self.num_heads = attention.num_heads
        self.attention_output = attention.attention_output
        self.projections = self._merged(attention)
        self.built = True

    def _merged(self, attention: SelfAttention) -> HeadProjection:
        """Returns query, key and value side by side, and a head of zeros where their rows would be aliased."""
        width, _, size = attention.query.kernel_shape
        parts = [part.get_weights() for part in (attention.query, attention.key, attention.value)]
        if _is_aliased(3 * width):
            parts.append([np.zeros((width, 1, size), np.float32), np.zeros((1, size), np.float32)])
        kernels, biases = zip(*parts, strict=True)
        kernel = np.concatenate(kernels, axis=1)
        merged = HeadProjection(kernel.shape, 1, dtype=self.dtype_policy, name="projections")
        merged.build((None, width))
        merged.set_weights([kernel, np.concatenate(biases)])
        return merged

    def call(self, hidden, attention_mask, training=None):
        """Returns what each position draws from those that it attends to."""
        if training:
            raise ValueError("a layer arranged for inference cannot be trained. Received: training=True")
        rows, length = rows_of(hidden)
        _, heads, size = self.projections.kernel_shape
        apart = ops.reshape(self.projections(rows), (-1, length, heads, size))
        # Heads come first: taking them apart copies nothing then.
        parts = ops.split(ops.transpose(apart, (2, 0, 1, 3)), range(self.num_heads, heads, self.num_heads))
        query, key, value = parts[:3]
        scores = ops.matmul(query * (1.0 / math.sqrt(size)), ops.transpose(key, (0, 1, 3, 2)))
        weights = ops.softmax(ops.cast(scores, "float32") + ops.transpose(attention_mask, (1, 0, 2, 3)))
        drawn = ops.matmul(ops.cast(weights, self.compute_dtype), value)
        drawn = ops.reshape(ops.transpose(drawn, (1, 2, 0, 3)), (-1, hidden.shape[-1]))
        return ops.reshape(self.attention_output(drawn), (-1, length, hidden.shape[-1]))

    def compute_output_shape(self, hidden_shape, attention_mask_shape=None):
        """Returns (B, S, H)."""
        return hidden_shape


def fused_gelu_approximate(inputs: Any) -> Any:
    """The same function as `activations.gelu_approximate`, of the operations that TensorFlow fuses with a product.

    In bfloat16 oneDNN then rounds once, after it; as operations of their own, each of them rounds.

    Args:
        inputs: float tensor of any shape.

    Returns:
        A tensor of the same shape and dtype.
    """
    return ops.gelu(inputs, approximate=True)


def arrange_for_inference(model: keras.Model) -> None:
    """Gives all transformer layers of a model the weights that are fastest to multiply by; answers stay what they were.

    Query, key and value become one product. Its kernel, and that to F, get columns of zeros, which nothing
    downstream reads, where their rows would share the sets of the cache; those back to H stay as they are. The
    activation becomes part of the product before it. `benchmarks.serving` shows what comes of it.

    Layer normalization stays as it is on purpose: of the forms that TensorFlow 2.21 puts a single operation of oneDNN
    for, one is computed with an epsilon of 0.001 whatever the graph says, one is several times slower without oneDNN.

    Args:
        model: its weights loaded, not quantized yet. It can neither be trained nor saved afterwards.
    """
    for layer in _transformer_layers(model):
        _replace(layer, "attention", MergedAttention(layer.attention))
        if layer.activation == "gelu_approximate":
            layer.inner.activation = fused_gelu_approximate
        width, inner = layer.inner.kernel.shape
        if _is_aliased(inner):
            _replace(layer, "inner", _widened(layer.inner, width, inner + _SPARE_UNITS))
            _replace(layer, "outer", _widened(layer.outer, inner + _SPARE_UNITS, width))


def quantize_weights(model: keras.Model) -> None:
    """Keeps kernels and the token table as int8, a scale for each output or token; computes in float32 as before.

    Activations are not quantized: TensorFlow's products of int8 for the CPU are slower than those of float32, and
    weights alone lose less.

    Args:
        model: in float32, its weights loaded, arranged for inference or not.
    """
    weights_alone = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    # Keras has a garbage collection after every layer, each of which takes as long as there are objects: most of the
    # time this would take. They need not look at what lived before.
    gc.freeze()
    try:
        model.quantize("int8", config=weights_alone, filters=lambda layer: isinstance(layer, _QUANTIZED))
    finally:
        gc.unfreeze()


def _transformer_layers(model: keras.Model) -> list[TransformerLayer]:
    found = []
    for layer in model.layers:
        if isinstance(layer, TransformerLayer):
            found.append(layer)
        elif isinstance(layer, keras.Model):
            found += _transformer_layers(layer)
    return found


def _is_aliased(units: int) -> bool:
    return units * np.dtype(np.float32).itemsize % _ALIASED_BYTES == 0


def _widened(dense: keras.layers.Dense, inputs: int, units: int) -> keras.layers.Dense:
    """Returns a layer of more inputs or units, all weights of which are zero that `dense` has not."""
    wider = keras.layers.Dense(units, activation=dense.activation, dtype=dense.dtype_policy, name=dense.name)
    wider.build((None, inputs))
    wider.set_weights(
        [
            np.pad(given.numpy(), [(0, new - old) for new, old in zip(weight.shape, given.shape, strict=True)])
            for weight, given in zip(wider.weights, dense.weights, strict=True)
        ]
    )
    return wider


def _replace(owner: keras.layers.Layer, name: str, layer: keras.layers.Layer) -> None:
    """Puts a layer in another's place. Keras locks what is built, and opens it itself where its layers quantize."""
    owner._tracker.unlock()
    owner._tracker.untrack(getattr(owner, name))
    setattr(owner, name, layer)
    owner._tracker.lock()
