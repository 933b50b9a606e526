"""Attention kernels, rematerialization, padded vocabulary and low-precision normalization, on TensorFlow.

tests/integration/training/backends has them on JAX.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.data.schema import MLM_LOGITS
from bert_tf.layers import LayerNormalization, MaskedLMHead, SelfAttention, TransformerLayer
from bert_tf.layers.computation import set_computation
from bert_tf.models import BertBackbone, BertPretrainer

B, S, H, N = 3, 7, 24, 3
LENGTHS = np.array([7, 4, 1])
PADDING = (np.arange(S) < LENGTHS[:, None]).astype(np.int32)
EXAMPLES = np.array([[1, 1, 1, 2, 2, 0, 0]] * B, np.int32)
# Arguments of a layer and of its call.
MASKS = {
    "padding": ({}, {"padding_mask": PADDING}),
    "packed": ({}, {"padding_mask": 1 * (EXAMPLES > 0), "example_ids": EXAMPLES}),
    "left_to_right": ({"left_to_right": True}, {"padding_mask": PADDING}),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 2**-5)])
@pytest.mark.parametrize("mask", MASKS)
def test_the_fused_kernel_computes_as_the_plain_one(mask, dtype, tolerance):
    """Scores reach 10, as those of trained encoders. One rounding is 2^-24 in float32 and 2^-8 in bfloat16."""
    options, rows = MASKS[mask]
    layer = SelfAttention(N, dropout=0.0, initializer_range=0.5, dtype=dtype, **options)
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
            outputs = tf.cast(layer(tf.cast(hidden, layer.compute_dtype), **rows), tf.float32)
            loss = tf.reduce_sum(outputs * weights)
        gradients = tape.gradient(loss, [hidden, *layer.trainable_variables])
        found.append([outputs * tokens, *gradients])
    scale = max(float(tf.reduce_max(tf.abs(gradient))) for gradient in found[0][1:])
    for plain, fused in zip(*found, strict=True):
        np.testing.assert_allclose(fused, plain, atol=tolerance * scale)
    assert float(tf.reduce_max(tf.abs(layer.weights_of(hidden, **rows)))) > 0.99, "some scores are large"


def test_rematerialization_repeats_the_dropout_masks():
    layer = TransformerLayer(N, 4 * H, dropout=0.5)
    hidden = tf.constant(np.random.default_rng(1).normal(size=(B, S, H)).astype(np.float32))
    layer.build(hidden.shape)
    states = [weight for weight in layer.non_trainable_variables if "seed" in weight.path]
    before = [state.numpy() for state in states]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(hidden, PADDING, training=True)[..., :3] ** 2)
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


def test_normalization_in_the_compute_dtype():
    """The normalized values are rounded to 8 significant bits, relative errors of 2^-8, once more than otherwise."""
    rounding = 2.0**-8
    random = np.random.default_rng(1)
    # Some units of trained encoders are 20 times as large as the others.
    inputs = random.normal(3.0, 2.0, size=(5, 48)) * np.where(np.arange(48) == 7, 20, 1)
    inputs = tf.cast(inputs, tf.bfloat16)
    upstream = tf.cast(random.normal(size=(5, 48)), tf.bfloat16)
    layer = LayerNormalization(epsilon=1e-12, dtype="mixed_bfloat16")
    layer.stores_float32 = False
    layer.build(inputs.shape)
    # Keras casts the weights to bfloat16, and their gradients.
    gamma, beta = (
        tf.cast(tf.cast(values, tf.bfloat16), tf.float64).numpy()
        for values in (random.normal(1.0, 0.2, 48), random.normal(size=48))
    )
    layer.set_weights([gamma, beta])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
    gradients = tape.gradient(outputs, [inputs, layer.gamma, layer.beta], upstream)
    assert outputs.dtype == gradients[0].dtype == tf.bfloat16 and gradients[1].dtype == tf.float32

    x, g = (tf.cast(values, tf.float64).numpy() for values in (inputs, upstream))
    inverse = 1 / np.sqrt(x.var(axis=1, keepdims=True))
    unit = (x - x.mean(axis=1, keepdims=True)) * inverse
    expected = unit * gamma + beta
    at_unit = g * gamma
    along = (at_unit * unit).mean(axis=1, keepdims=True)
    at_inputs = (at_unit - at_unit.mean(axis=1, keepdims=True) - unit * along) * inverse
    error_of_along = rounding * np.abs(at_unit * unit).mean(axis=1, keepdims=True)
    bounds = (
        rounding * (np.abs(unit * gamma) + np.abs(expected)),
        rounding * (np.abs(unit * along) * inverse + np.abs(at_inputs)) + np.abs(unit) * error_of_along * inverse,
        rounding * (np.abs(g * unit).sum(axis=0) + np.abs((g * unit).sum(axis=0))),
        rounding * np.abs(g.sum(axis=0)),
    )
    found = [outputs, *gradients]
    wanted = [expected, at_inputs, (g * unit).sum(axis=0), g.sum(axis=0)]
    for value, target, bound in zip(found, wanted, bounds, strict=True):
        # Float32, and products of two roundings.
        slack = 1.01 * bound + 1e-5
        assert (np.abs(tf.cast(value, tf.float64).numpy() - target) <= slack).all()


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 2.0**-24), ("mixed_bfloat16", 2.0**-8)])
@pytest.mark.parametrize("vocabulary_size", [100, 128, 130])
def test_a_padded_vocabulary_has_the_same_logits_and_gradients(dtype, rounding, vocabulary_size):
    embedding = keras.layers.Embedding(vocabulary_size, H, dtype=dtype)
    head = MaskedLMHead(embedding, initializer_range=0.5, dtype=dtype)
    positions = np.array([[0, 3], [2, 6], [1, 0]], np.int32)
    hidden = tf.constant(np.random.default_rng(1).normal(size=(B, S, H)).astype(np.float32))
    head.build(hidden.shape, positions.shape)
    embedding.set_weights([np.random.default_rng(2).normal(size=(vocabulary_size, H))])
    upstream = np.random.default_rng(3).normal(size=(B, 2, vocabulary_size)).astype(np.float32)
    found, shapes = [], []
    for multiple in (1, 128):
        head.vocabulary_multiple = multiple

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                tape.watch(hidden)
                logits = head(tf.cast(hidden, head.compute_dtype), positions)
            return logits, tape.gradient(logits, [hidden, *head.trainable_variables], upstream)

        logits, gradients = step()
        found.append([logits, *gradients])
        operations = step.get_concrete_function().graph.get_operations()
        shapes.append({size for op in operations if op.type == "MatMul" for size in op.outputs[0].shape})
    assert logits.shape == (B, 2, vocabulary_size) and (logits.numpy() > 10).any(), "logits of trained models"
    assert vocabulary_size in shapes[0]
    assert -(-vocabulary_size // 128) * 128 in shapes[1] and (
        vocabulary_size == 128 or vocabulary_size not in shapes[1]
    )
    for plain, padded in zip(*found, strict=True):
        # Sums of H products of the logits, and of all logits' gradients, in another order.
        scale = np.abs(tf.cast(plain, tf.float32)).max()
        np.testing.assert_allclose(padded, plain, atol=vocabulary_size * rounding * scale)


def test_the_computation_of_a_pretraining_model():
    model = BertPretrainer(BertBackbone(BertConfig.from_size("tiny", vocabulary_size=50)))
    head = model.get_layer(MLM_LOGITS)
    norms = [model.backbone.get_layer("layer_1").feedforward_norm, head.layer_norm]
    set_computation(model, pad_vocabulary="true", normalization="compute")
    assert head.vocabulary_multiple == 128 and not any(norm.stores_float32 for norm in norms)
    set_computation(model)
    assert head.vocabulary_multiple == 1 and all(norm.stores_float32 for norm in norms), "CPUs gain nothing"
