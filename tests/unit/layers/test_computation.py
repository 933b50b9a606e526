"""Attention kernels and rematerialization, on TensorFlow; tests/integration/training/backends has them on JAX."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.layers import AttentionMask, SelfAttention, TransformerLayer
from bert_tf.layers.computation import set_computation
from bert_tf.models import BertBackbone

B, S, H, N = 3, 7, 24, 3
LENGTHS = np.array([7, 4, 1])
PADDING = (np.arange(S) < LENGTHS[:, None]).astype(np.int32)
EXAMPLES = np.array([[1, 1, 1, 2, 2, 0, 0]] * B, np.int32)
MASKS = {
    "padding": AttentionMask()(PADDING),
    "packed": AttentionMask()((EXAMPLES > 0).astype(np.int32), EXAMPLES),
    "left_to_right": AttentionMask(left_to_right=True)(PADDING),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 2**-5)])
@pytest.mark.parametrize("mask", MASKS)
def test_the_fused_kernel_computes_as_the_plain_one(mask, dtype, tolerance):
    """Scores reach 10, as those of trained encoders. One rounding is 2^-24 in float32 and 2^-9 in bfloat16."""
    layer = SelfAttention(N, dropout=0.0, initializer_range=0.5, dtype=dtype)
    keras.utils.set_random_seed(1)
    hidden = tf.constant(np.random.default_rng(1).normal(size=(B, S, H)).astype(np.float32))
    tokens = (EXAMPLES > 0 if mask == "packed" else PADDING)[..., None]
    weights = np.random.default_rng(2).normal(size=(B, S, H)) * tokens
    layer.build(hidden.shape)
    found = []
    for kernel in ("plain", "fused"):
        layer.kernel = kernel
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            outputs = tf.cast(layer(tf.cast(hidden, layer.compute_dtype), MASKS[mask]), tf.float32)
            loss = tf.reduce_sum(outputs * weights)
        gradients = tape.gradient(loss, [hidden, *layer.trainable_variables])
        found.append([outputs * tokens, *gradients])
    scale = max(float(tf.reduce_max(tf.abs(gradient))) for gradient in found[0][1:])
    for plain, fused in zip(*found, strict=True):
        np.testing.assert_allclose(fused, plain, atol=tolerance * scale)
    assert float(tf.reduce_max(tf.abs(layer.weights_of(hidden, MASKS[mask])))) > 0.99, "some scores are large"


def test_rematerialization_repeats_the_dropout_masks():
    layer = TransformerLayer(N, 4 * H, dropout=0.5)
    hidden = tf.constant(np.random.default_rng(1).normal(size=(B, S, H)).astype(np.float32))
    layer.build(hidden.shape)
    states = [weight for weight in layer.non_trainable_variables if "seed" in weight.path]
    before = [state.numpy() for state in states]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(hidden, MASKS["padding"], training=True)[..., :3] ** 2)
        return loss, tape.gradient(loss, layer.trainable_variables)

    found, products = [], []
    for rematerialize in (False, True):
        layer.rematerialize = rematerialize
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        compiled = tf.function(step)
        found.append(compiled())
        operations = compiled.get_concrete_function().graph.get_operations()
        products.append(sum("MatMul" in operation.type for operation in operations))
    np.testing.assert_array_equal(found[1][0], found[0][0])
    for plain, again in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(again, plain)
    # Two products of attention, four projections, two of the feed-forward network.
    assert products[1] >= products[0] + 8
    assert [state.numpy().tolist() for state in states] != [value.tolist() for value in before]


def test_the_kernel_of_a_model():
    without = BertBackbone(BertConfig.from_size("tiny", vocabulary_size=50, attention_dropout=0.0))
    set_computation(without, "fused", rematerialize=True)
    layers = [without.get_layer(f"layer_{number}") for number in (1, 2)]
    assert [(layer.attention.kernel, layer.rematerialize) for layer in layers] == [("fused", True)] * 2
    set_computation(without, "auto")
    assert [(layer.attention.kernel, layer.rematerialize) for layer in layers] == [("plain", False)] * 2
    dropped = BertBackbone(BertConfig.from_size("tiny", vocabulary_size=50))
    with pytest.raises(ConfigError, match=r"`attention_dropout` must be 0. Received: 0.1. Set `model"):
        set_computation(dropped, "fused")
