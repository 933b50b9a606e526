from __future__ import annotations

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import TrainingConfig
from bert_tf.optim.build import is_decayed, last_rate, make_optimizer


def encoder():
    """An embedding, a keras_hub encoder layer and a head whose bias has a different name."""
    tokens = keras.Input((None,), dtype="int32")
    hidden = keras_hub.layers.TokenAndPositionEmbedding(20, 6, 8, name="embeddings")(tokens)
    hidden = keras.layers.LayerNormalization(name="embeddings_layer_norm")(hidden)
    hidden = keras_hub.layers.TransformerEncoder(16, 2, name="layer_0")(hidden)
    return keras.Model(tokens, keras.layers.Dense(3, name="pooler")(hidden))


def test_biases_and_layer_norms_are_not_decayed():
    model = encoder()
    decayed = {v.path for v in model.trainable_variables if is_decayed(v)}
    spared = {v.path for v in model.trainable_variables} - decayed
    assert {path.rsplit("/", 1)[-1] for path in decayed} == {"embeddings", "kernel"}
    assert {path.rsplit("/", 1)[-1] for path in spared} == {"bias", "gamma", "beta"}
    # Two embeddings, q, k, v, output, two of the feed-forward part and the pooler; three layer norms.
    assert len(decayed) == 9
    assert len(spared) == 7 + 3 * 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model/token_embedding/embeddings", True),
        ("model/dense/kernel", True),
        ("model/mlm_head/output_bias", False),
        ("model/bias_free/kernel", True),
        ("model/layer_norm/gamma", False),
    ],
)
def test_is_decayed_uses_the_last_part_of_the_name(path, expected):
    variable = keras.Variable(0.0)
    variable._path = path
    assert is_decayed(variable) is expected


def oracle_adamw(values, gradients, rate, config, decayed):
    """The first step of AdamW in float64; Keras adds epsilon before the bias correction of the second moment."""
    epsilon = config.adam_epsilon / np.sqrt(1 - config.adam_beta_2)
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    gradients = [g * min(1.0, config.clip_norm / norm) for g in gradients]
    return [
        w * (1 - rate * config.weight_decay * d) - rate * g / (np.abs(g) + epsilon)
        for w, g, d in zip(values, gradients, decayed, strict=True)
    ]


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_one_step_equals_the_oracle(scale):
    config = TrainingConfig(learning_rate=0.1, warmup_steps=1, weight_decay=0.3)
    kernel, bias = keras.Variable([[1.0, -2.0]], name="kernel"), keras.Variable([0.5, 0.5], name="bias")
    optimizer = make_optimizer(config, 10, [kernel, bias])
    gradients = [scale * np.array([[1.0, -3.0]], np.float32), scale * np.array([2.0, 0.0], np.float32)]
    expected = oracle_adamw([kernel.numpy(), bias.numpy()], gradients, 0.05, config, (1, 0))
    optimizer.apply([tf.constant(g) for g in gradients])
    # Adam's bias correction in float32 has a relative error of about 1e-4 in the first step.
    np.testing.assert_allclose(kernel.numpy(), expected[0], rtol=1e-4)
    np.testing.assert_allclose(bias.numpy(), expected[1], rtol=1e-4)
    assert last_rate(optimizer) == pytest.approx(0.05)
    assert int(optimizer.iterations) == 1


def slices(rows, indices, size):
    return tf.IndexedSlices(tf.constant(rows, tf.float32), tf.constant(indices), tf.constant([size, 2]))


def test_norm_sums_repeated_rows_of_a_sparse_gradient():
    config = TrainingConfig(learning_rate=0.1, warmup_steps=0, clip_norm=1.0, adam_epsilon=1.0)
    steps = []
    dense = np.array([[6.0, 0.0], [0.0, 8.0]], np.float32)
    for gradient in (
        tf.constant(dense),
        slices([[3.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, 4.0]], [0, 0, 1, 1], 2),
    ):
        table = keras.Variable(np.ones((2, 2), np.float32), name="embeddings")
        make_optimizer(config, 10, [table]).apply([gradient])
        steps.append(table.numpy())
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-6)
    expected = oracle_adamw([np.ones((2, 2))], [dense], 0.1, config, (1,))[0]
    np.testing.assert_allclose(steps[0], expected, rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_float16_skips_an_overflowing_step(sparse):
    config = TrainingConfig(learning_rate=0.1, precision="float16")
    table = keras.Variable(np.ones((2, 2), np.float32), name="embeddings")
    optimizer = make_optimizer(config, 10, [table])
    scale = float(optimizer.dynamic_scale)
    bad = slices([[np.inf, 0.0]], [0], 2) if sparse else tf.constant([[np.inf, 0.0], [0.0, 0.0]])
    optimizer.apply([bad], [table])
    np.testing.assert_array_equal(table.numpy(), np.ones((2, 2)))
    assert float(optimizer.dynamic_scale) == scale / 2
    assert int(optimizer.iterations) == 0
    optimizer.apply([tf.fill((2, 2), scale)], [table])
    assert (table.numpy() < 1).all()
    assert int(optimizer.iterations) == 1
