"""Attention in windows and in blocks of queries computes as that of whole rows does."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.layers import SelfAttention, TransformerLayer
from bert_tf.layers.attention import weighted_values
from bert_tf.layers.attention_pattern import AttentionPattern
from tests.support.layers.short_parts import QUERIES, short_parts

B, N, D = 2, 2, 4


@pytest.fixture(autouse=True)
def in_short_parts() -> Iterator[None]:
    with short_parts():
        yield


def rows(length: int, seed: int, packed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Returns queries, keys and values in one array, a padding mask with padding, and the examples of packed rows."""
    rng = np.random.default_rng(seed)
    heads = rng.normal(size=(3, B, length, N, D), scale=2.0).astype(np.float32)
    padding = (np.arange(length) < rng.integers(1, length + 1, (B, 1))).astype(np.int32)
    examples = (1 + np.sort(rng.integers(0, 3, (B, length)), axis=1)).astype(np.int32) * padding
    return heads, padding, examples if packed else None


def attended(query, key, value, padding, examples, pattern: AttentionPattern) -> np.ndarray:
    """Attention in float64, one query after the other."""
    outputs = np.zeros(query.shape)
    for row, position in np.argwhere(padding):
        seen = padding[row] > 0
        if examples is not None:
            seen &= examples[row] == examples[row, position]
        distance = position - np.arange(len(seen))
        seen &= np.abs(distance) <= (len(seen) if pattern.reach is None else pattern.reach)
        seen &= ~((distance < 0) & pattern.left_to_right)
        for head in range(N):
            scores = key[row, seen, head].astype(np.float64) @ query[row, position, head] / np.sqrt(D)
            weights = np.exp(scores - scores.max())
            outputs[row, position, head] = weights / weights.sum() @ value[row, seen, head]
    return outputs


def in_parts(pattern: AttentionPattern, kernel=weighted_values):
    return pattern.blocks if pattern.reach is None else functools.partial(pattern.windows, kernel)


PATTERNS = st.builds(AttentionPattern, st.booleans(), st.sampled_from([None, 0, 1, 2, 5]))


@given(PATTERNS, st.integers(1, 13), st.integers(0, 99), st.booleans())
@settings(max_examples=60, deadline=None)
def test_parts_equal_the_formula(pattern, length, seed, packed):
    heads, padding, examples = rows(length, seed, packed)
    found = in_parts(pattern)(*heads, padding, examples)
    tokens = padding[..., None, None]
    np.testing.assert_allclose(found * tokens, attended(*heads, padding, examples, pattern), atol=1e-5)
    np.testing.assert_array_equal(np.isfinite(found), True)


# Modes that take longer.
MODES = ("compiled", "rematerialized")


def with_gradients(function, tensors, weights):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = function(*tensors)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights)
    return [outputs * tf.cast(weights != 0, outputs.dtype), *tape.gradient(loss, tensors)]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), pytest.param("bfloat16", 2**-5, marks=pytest.mark.integration)]
)
@pytest.mark.parametrize(
    "mode", ["eager", "free", *(pytest.param(mode, marks=pytest.mark.integration) for mode in MODES)]
)
@pytest.mark.parametrize(
    ("left_to_right", "reach"), [(False, None), (True, None), (False, 2), (True, 3)], ids=["all", "ltr", "near", "both"]
)
def test_gradients_equal_those_of_whole_rows(left_to_right, reach, mode, dtype, tolerance):
    pattern = AttentionPattern(left_to_right, reach)
    heads, padding, examples = rows(11, 1, packed=True)
    weights = np.random.default_rng(3).normal(size=heads.shape[1:]).astype(np.float32) * padding[..., None, None]
    tensors = [tf.cast(values, dtype) for values in heads]
    parts = in_parts(pattern)
    of_parts = {
        "rematerialized": lambda *given: keras.remat(lambda *heads: parts(*heads, padding, examples))(*given),
    }.get(mode, lambda *given: parts(*given, tf.constant(padding), tf.constant(examples)))

    def found(tensors):
        return with_gradients(of_parts, tensors, weights)

    if mode == "free":
        found = tf.function(found, input_signature=[[tf.TensorSpec((None, None, N, D), dtype)] * 3])
    elif mode != "eager":
        found = tf.function(found, jit_compile=mode == "compiled")
    whole = with_gradients(lambda *given: weighted_values(*given, pattern.mask(padding, examples)), tensors, weights)
    scale = max(float(tf.reduce_max(tf.abs(each))) for each in whole)
    for part, expected in zip(found(tensors), whole, strict=True):
        np.testing.assert_allclose(
            tf.cast(part, tf.float32), tf.cast(expected, tf.float32), rtol=0, atol=tolerance * scale
        )


@pytest.mark.parametrize("reach", [None, 2])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.integration)])
def test_gradients_of_layers_with_rows_of_unknown_length(compiled, reach):
    """A condition on the length has no gradient in XLA, so that layers in training have none."""
    layer = TransformerLayer(N, 12, dropout=0.0, reach=reach)
    layer.build((None, None, N * D))

    def gradients(hidden, tokens):
        with tf.GradientTape() as tape:
            outputs = layer(hidden, tokens, training=True)
            loss = tf.reduce_sum(outputs**2 * tf.cast(tokens, tf.float32)[..., None])
        return tape.gradient(loss, layer.trainable_variables)

    signature = [tf.TensorSpec((None, None, N * D)), tf.TensorSpec((None, None), tf.int32)]
    free = tf.function(gradients, input_signature=signature, jit_compile=compiled)
    for length in (1, 5, 6, 13, 14):
        hidden = tf.constant(np.random.default_rng(length).normal(size=(B, length, N * D)), tf.float32)
        tokens = tf.constant((np.arange(length) < [[length], [length // 2 + 1]]).astype(np.int32))
        found = free(hidden, tokens)
        layer.attention.pattern = dataclasses.replace(layer.attention.pattern, max_length=1)
        expected = gradients(hidden, tokens)
        layer.attention.pattern = dataclasses.replace(layer.attention.pattern, max_length=None)
        scale = max(float(tf.reduce_max(tf.abs(each))) for each in expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.integration)])
@pytest.mark.parametrize("reach", [None, 2])
def test_batches_without_rows(reach, compiled):
    """A replica may get no row of the last batch, and exports are compared on empty batches."""
    layer = SelfAttention(N, dropout=0.0, reach=reach)
    layer.build((None, None, N * D))

    def step(hidden, training):
        with tf.GradientTape() as tape:
            outputs = layer(hidden, tf.ones(tf.shape(hidden)[:2], tf.int32), training=training)
            loss = tf.reduce_sum(outputs)
        return outputs, tape.gradient(loss, layer.trainable_variables)

    for training in (False, True):
        function = tf.function(lambda hidden, training=training: step(hidden, training), jit_compile=compiled)
        outputs, gradients = function(tf.zeros((0, 13, N * D)))
        assert outputs.shape == (0, 13, N * D)
        assert all(not np.any(gradient) for gradient in gradients)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((B, 1, 1, 3), np.float32), r"must have shape \(B, S\) with S = 3: .* Received: \(2, 1, 1, 3\)"),
        (np.ones((B, 1), np.int32), r"must have shape \(B, S\)"),
        (None, "must have shape .* Received: None"),
        (np.zeros((B, 3), np.float32), "must hold integers or booleans: .* Received: float32"),
    ],
)
def test_additive_masks_are_refused(mask, message):
    with pytest.raises(ValueError, match=f"`padding_mask` {message}"):
        SelfAttention(N)(np.zeros((B, 3, N * D), np.float32), mask)


def test_fused_kernel_computes_windows():
    pattern = AttentionPattern(reach=2)
    heads, padding, examples = rows(11, 1, packed=True)

    def fused(query, key, value, mask):
        return keras.ops.dot_product_attention(query, key, value, mask=mask >= 0.0)

    found = pattern.windows(fused, *heads, padding, examples) * padding[..., None, None]
    np.testing.assert_allclose(found, attended(*heads, padding, examples, pattern), atol=1e-5)


def test_dropout_of_blocks_is_that_of_their_gradients():
    """With values and weights of 1, the gradient of a value is the sum of the weights that were kept."""
    layer = SelfAttention(N, dropout=0.5)
    heads, padding, _ = rows(11, 1, packed=False)
    seed = layer.dropout_layer.next_seed()
    masks = []

    def drop(weights, seed, number):
        masks.append(layer.dropout_layer.with_mask_of(tf.ones_like(weights), seed, number))
        return layer.dropout_layer.with_mask_of(weights, seed, number)

    query, key, value = map(tf.constant, heads)
    with tf.GradientTape() as tape:
        tape.watch(value)
        outputs = AttentionPattern().blocks(query, key, value, padding, None, drop, seed)
        loss = tf.reduce_sum(outputs * outputs)
    gradient = tape.gradient(loss, value)
    blocks = -(-11 // QUERIES)
    forward, backward = masks[:blocks], masks[blocks:]
    for first, second in zip(forward, backward[::2], strict=True):
        np.testing.assert_array_equal(first, second)
    assert len({each.numpy().tobytes() for each in forward}) == blocks, "every block has a mask of its own"
    # Twice the loss, because it is quadratic in the values.
    np.testing.assert_allclose(tf.reduce_sum(gradient * value), 2 * loss, rtol=1e-4)


@pytest.mark.parametrize("reach", [None, 2])
@pytest.mark.parametrize("rematerialize", [False, pytest.param(True, marks=pytest.mark.integration)])
def test_layers_with_dropout_in_parts_repeat_with_the_seed(reach, rematerialize):
    """The gradient of a step equals the difference quotient with the same dropout masks."""
    keras.utils.set_random_seed(1)
    layer = TransformerLayer(N, 12, dropout=0.3, rotary_theta=100.0, reach=reach)
    layer.rematerialize = rematerialize
    rng = np.random.default_rng(0)
    hidden, change, weights = (tf.constant(rng.normal(size=(B, 23, N * D)), tf.float32) for _ in range(3))
    padding = tf.ones((B, 23), tf.int32)
    layer.build(hidden.shape)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    states = [weight for weight in layer.non_trainable_variables if "seed" in weight.path]
    before = [weight.numpy() for weight in states]

    @tf.function(input_signature=[tf.TensorSpec((None, None, N * D))])
    def loss_of(hidden):
        return tf.reduce_sum(layer(hidden, padding, training=True) * weights)

    def repeated(hidden):
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        return loss_of(hidden)

    with tf.GradientTape() as tape:
        tape.watch(hidden)
        loss = repeated(hidden)
    slope = float(tf.reduce_sum(tape.gradient(loss, hidden) * change))
    step = 1e-3
    quotient = float(repeated(hidden + step * change) - repeated(hidden - step * change)) / (2 * step)
    assert float(loss) != float(loss_of(hidden)), "dropout acts"
    np.testing.assert_allclose(slope, quotient, rtol=2e-2)


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [(AttentionPattern(), 5), (AttentionPattern(reach=3), 12), (AttentionPattern(max_length=5), None)],
)
def test_rows_are_computed_in_parts_if_they_are_long(pattern, limit):
    def chosen(length):
        return pattern.by_length(length, lambda: tf.constant("whole"), lambda: tf.constant("parts"))

    free = tf.function(chosen, input_signature=[tf.TensorSpec((), tf.int32)])
    for length in (1, 5, 6, 12, 13):
        expected = b"parts" if limit and length > limit else b"whole"
        assert chosen(length).numpy() == free(tf.constant(length)).numpy() == expected


@pytest.mark.parametrize(
    ("pattern", "at_limit", "beyond"),
    [
        (AttentionPattern(), 12, 13),
        (AttentionPattern(reach=3), 12, 9),
        (AttentionPattern(left_to_right=True, reach=3), 12, 6),
    ],
)
def test_keys_that_are_compared_with_a_query(pattern, at_limit, beyond):
    """A window has three queries, and the keys of its neighbors."""
    assert [pattern.keys_per_query(length) for length in (12, 13)] == [at_limit, beyond]


def test_no_tensor_has_all_pairs_of_long_rows():
    """A step of a layer of each kind, whose rows are 40 tokens long, makes no tensor with 40 x 40 numbers per head."""
    length = 40
    for reach in (None, 2):
        layer = TransformerLayer(N, 12, dropout=0.1, reach=reach)
        layer.build((None, None, N * D))

        @tf.function
        def step(hidden, layer=layer):
            with tf.GradientTape() as tape:
                tape.watch(hidden)
                loss = tf.reduce_sum(layer(hidden, tf.ones((B, length), tf.int32), training=True))
            return tape.gradient(loss, hidden)

        graph = step.get_concrete_function(tf.TensorSpec((B, length, N * D))).graph
        bodies = [function.graph for function in graph._functions.values() if hasattr(function, "graph")]
        outputs = [
            tensor.shape.num_elements()
            for each in [graph, *bodies]
            for operation in each.get_operations()
            for tensor in operation.outputs
        ]
        assert max(size for size in outputs if size is not None) < B * N * length * length
