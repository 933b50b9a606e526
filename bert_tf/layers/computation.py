"""Settings of the computation of transformer layers, which change neither weights nor architecture."""

from __future__ import annotations

import keras

from bert_tf.config import ConfigError
from bert_tf.layers.transformer import TransformerLayer


def set_computation(model: keras.Model, attention_kernel: str = "auto", rematerialize: bool = False) -> None:
    """Sets the attention kernel of all transformer layers of a model, and whether they are rematerialized.

    Set them before the model is trained or called: functions that are compiled already do not change.

    Args:
        model: a model of this project.
        attention_kernel: `plain`; `fused` for `keras.ops.dot_product_attention`, which has no dropout; `auto` for the
            fused kernel on accelerators with JAX if the model has no attention dropout.
        rematerialize: whether the backward pass computes the activations of each layer again, to save memory.

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
    for layer in model._flatten_layers():
        if isinstance(layer, TransformerLayer):
            layer.attention.kernel = _resolved(attention_kernel, layer.attention.dropout)
            layer.rematerialize = rematerialize


def _resolved(kernel: str, dropout: float) -> str:
    if kernel == "fused" and dropout:
        raise ConfigError(
            f"the fused attention kernel has no dropout, so `attention_dropout` must be 0. Received: {dropout}. Set "
            "`model.attention_dropout=0.0`, or `training.attention_kernel=plain`."
        )
    if kernel != "auto":
        return kernel
    return "fused" if not dropout and _has_fused_kernel() else "plain"


def _has_fused_kernel() -> bool:
    """Returns True for JAX on an accelerator. Keras's kernels for TensorFlow and CPUs compute as the plain one does."""
    if keras.backend.backend() != "jax":
        return False
    return any(device.startswith(("gpu", "tpu")) for device in keras.distribution.list_devices())
