"""Settings of the computation of transformer layers, which change neither weights nor architecture."""

from __future__ import annotations

import keras

from bert_tf.config import ConfigError
from bert_tf.layers.normalization import LayerNormalization
from bert_tf.layers.pretraining_heads import MaskedLMHead
from bert_tf.layers.transformer import TransformerLayer

# Width of the matrix units of TPUs, and a multiple of the tiles of GPUs.
_TILE = 128


def set_computation(
    model: keras.Model,
    attention_kernel: str = "auto",
    rematerialize: bool = False,
    pad_vocabulary: str = "auto",
    normalization: str = "float32",
) -> None:
    """Sets the way in which the layers of a model compute. Weights and, up to rounding, results are the same.

    Set it before the model is trained or called: functions that are compiled already do not change.

    Args:
        model: a model of this project.
        attention_kernel: `plain`; `fused` for `keras.ops.dot_product_attention`, which has no dropout; `auto` for the
            fused kernel on accelerators with JAX if the model has no attention dropout.
        rematerialize: whether the backward pass computes the activations of each layer again, to save memory.
        pad_vocabulary: whether the projection to the vocabulary is computed with zeros up to a multiple of 128:
            `true`, `false`, or `auto` for accelerators.
        normalization: dtype that layer normalization reads, and keeps for the backward pass: `float32`, or `compute`
            for that of the layer. The statistics are float32.

    Raises:
        ConfigError: for `fused` and a model with attention dropout.

    Example:
        >>> from bert_tf.layers.computation import set_computation
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100, attention_dropout=0.0)
        >>> backbone = bert_tf.BertBackbone(config)
        >>> set_computation(backbone, attention_kernel="fused", rematerialize=True)
        >>> backbone.get_layer("layer_1").attention.kernel
        'fused'
    """
    pads = pad_vocabulary == "true" or (pad_vocabulary == "auto" and has_accelerator())
    for layer in model._flatten_layers():
        if isinstance(layer, TransformerLayer):
            layer.attention.kernel = _resolved(attention_kernel, layer.attention.dropout)
            layer.rematerialize = rematerialize
        elif isinstance(layer, MaskedLMHead):
            layer.vocabulary_multiple = _TILE if pads else 1
        elif isinstance(layer, LayerNormalization):
            layer.stores_float32 = normalization == "float32"


def _resolved(kernel: str, dropout: float) -> str:
    if kernel == "fused" and dropout:
        raise ConfigError(
            f"the fused attention kernel has no dropout, so `attention_dropout` must be 0. Received: {dropout}. Set "
            "`model.attention_dropout=0.0`, or `training.attention_kernel=plain`."
        )
    if kernel != "auto":
        return kernel
    # Keras's kernels for TensorFlow and CPUs compute as the plain one does.
    has_kernel = keras.backend.backend() == "jax" and has_accelerator()
    return "fused" if not dropout and has_kernel else "plain"


def has_accelerator() -> bool:
    """Returns True if the backend sees a GPU or a TPU."""
    return any(device.lower().startswith(("gpu", "tpu")) for device in keras.distribution.list_devices())
