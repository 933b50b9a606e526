from __future__ import annotations

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers import LayerNormalization, TransformerLayer
from bert_tf.layers.activations import gelu_approximate
from bert_tf.layers.attention import HeadProjection

B, S, H, F, N = 3, 7, 12, 20, 3
RNG = np.random.default_rng(0)
LENGTHS = np.array([7, 4, 1])


def gradients_of(function, *values):
    """Outputs, and gradients of a sum with random weights, of a function of tensors."""
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = function(*tensors)
        weighted = tf.reduce_sum(outputs * np.random.default_rng(1).normal(size=outputs.shape).astype(np.float32))
    return outputs.numpy(), [gradient.numpy() for gradient in tape.gradient(weighted, tensors)]


def test_gelu_and_its_gradient_equal_the_formula():
    values = tf.constant(np.linspace(-12, 12, 2001).astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(values)
        outputs = gelu_approximate(values)
    x = np.asarray(values, np.float64)

    def formula(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    np.testing.assert_allclose(outputs, formula(x), atol=1e-6)
    slope = (formula(x + 1e-6) - formula(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(tape.gradient(outputs, values), slope, atol=2e-6)


@pytest.mark.parametrize("extreme", [-4096.0, -200.0, 200.0, 4096.0])
def test_gelu_is_finite_for_extreme_inputs(extreme):
    value, (gradient,) = gradients_of(gelu_approximate, np.array([extreme], np.float32))
    np.testing.assert_array_equal(value, [max(extreme, 0.0)])
    np.testing.assert_array_equal(np.isfinite(gradient), True)


@pytest.mark.parametrize("shape", [(5, H), (2, 3, H)])
def test_layer_normalization_equals_that_of_keras(shape):
    inputs = 3 * RNG.normal(size=shape).astype(np.float32) + 5
    weights = [RNG.normal(size=H).astype(np.float32) for _ in range(2)]
    found = []
    for kind in (LayerNormalization, keras.layers.LayerNormalization):
        layer = kind(epsilon=1e-6)
        layer.build(shape)
        layer.set_weights(weights)
        outputs, of_inputs = gradients_of(layer, inputs)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs) ** 3)
        found.append([outputs, *of_inputs, *(g.numpy() for g in tape.gradient(loss, layer.trainable_weights))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def layers_of_equal_weights():
    ours = TransformerLayer(N, F, dropout=0.0, layer_norm_epsilon=1e-6, name="layer")
    theirs = keras_hub.layers.TransformerEncoder(
        F, N, dropout=0.0, activation=gelu_approximate, layer_norm_epsilon=1e-6, name="layer"
    )
    for layer in (ours, theirs):
        layer.build((None, None, H))
    of_theirs = {weight.path: weight for weight in theirs.trainable_weights}
    assert {weight.path: weight.shape for weight in ours.trainable_weights} == {
        path: weight.shape for path, weight in of_theirs.items()
    }
    for weight in ours.trainable_weights:
        other = of_theirs[weight.path]
        value = RNG.normal(size=weight.shape, scale=0.5)
        weight.assign(value)
        other.assign(value)
    return ours, theirs


def test_layer_equals_that_of_keras_hub():
    ours, theirs = layers_of_equal_weights()
    hidden = RNG.normal(size=(B, S, H)).astype(np.float32)
    mask = np.arange(S) < LENGTHS[:, None]
    outputs, (gradient,) = gradients_of(lambda x: ours(x, mask.astype(np.int32)), hidden)
    expected, (their_gradient,) = gradients_of(lambda x: theirs(x, attention_mask=mask[:, None]), hidden)
    np.testing.assert_allclose(outputs, expected, atol=2e-5)
    np.testing.assert_allclose(gradient, their_gradient, atol=1e-4)


def test_dropout_acts_in_training_only():
    layer = TransformerLayer(N, F, dropout=0.5)
    hidden, tokens = RNG.normal(size=(B, S, H)).astype(np.float32), np.ones((B, S), np.int32)
    still = layer(hidden, tokens)
    np.testing.assert_array_equal(layer(hidden, tokens), still)
    assert np.abs(layer(hidden, tokens, training=True) - still).max() > 1e-3


def test_number_of_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="multiple of `num_heads`. Received: 12 and 5"):
        TransformerLayer(5, F).build((None, None, H))


def test_projections_can_be_quantized_to_int8_only():
    layer = HeadProjection((2, 3, 4), 2)
    layer.build((None, 6))
    kernel = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    layer.kernel.assign(kernel)
    rows = np.eye(6, dtype=np.float32)
    with pytest.raises(NotImplementedError, match="`mode` must be `int8`. Received: 'int4'"):
        layer.quantize("int4")
    layer.quantize("int8")
    assert [weight.dtype for weight in layer.weights if weight.name == "kernel"] == ["int8"]
    steps = np.abs(kernel).max(axis=(0, 1)) / 127
    found = np.asarray(layer(rows)).reshape(2, 3, 4)
    assert (np.abs(found - kernel) <= steps / 2 + 1e-6).all()
    assert np.abs(found - kernel).max() > 1e-4
