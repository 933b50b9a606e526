"""Tests BiLSTM with padding and the weighted sum against numpy."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_tf.layers import BiLSTM, WeightedSum

RNG = np.random.default_rng(3)
LENGTHS = (6, 3, 1)
SEQUENCE = RNG.normal(size=(3, 6, 4)).astype("float32")
MASK = (np.arange(6)[None] < np.array(LENGTHS)[:, None]).astype("int32")


@pytest.fixture(scope="module")
def bilstm():
    layer = BiLSTM(3, num_layers=2)
    layer.build(SEQUENCE.shape, MASK.shape)
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape))
    return layer


def lstm(steps, kernel, recurrent, bias):
    """Returns the outputs of one direction; gates in the order input, forget, candidate, output."""
    hidden = cell = np.zeros(recurrent.shape[0])
    outputs = []
    for step in steps:
        into, forget, candidate, out = np.split(step @ kernel + hidden @ recurrent + bias, 4)
        cell = sigmoid(forget) * cell + sigmoid(into) * np.tanh(candidate)
        hidden = sigmoid(out) * np.tanh(cell)
        outputs.append(hidden)
    return np.array(outputs)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def test_outputs_do_not_depend_on_padding_or_other_rows(bilstm):
    outputs, states = (np.asarray(values) for values in bilstm(SEQUENCE, MASK))
    weights = {weight.path: np.asarray(weight, np.float64) for weight in bilstm.weights}
    for row, length in enumerate(LENGTHS):
        hidden = SEQUENCE[row, :length].astype(np.float64)
        for number in (1, 2):
            paths = [f"bilstm_{number}/{side}_lstm/lstm_cell" for side in ("forward", "backward")]
            forward, backward = (
                [
                    next(value for path, value in weights.items() if path.endswith(f"{cell}/{kind}"))
                    for kind in ("kernel", "recurrent_kernel", "bias")
                ]
                for cell in paths
            )
            there, back = lstm(hidden, *forward), lstm(hidden[::-1], *backward)
            hidden = np.concatenate([there, back[::-1]], axis=1)
        np.testing.assert_allclose(outputs[row, :length], hidden, atol=1e-5)
        np.testing.assert_allclose(states[row], np.concatenate([there[-1], back[-1]]), atol=1e-5)
    assert not outputs[MASK == 0].any()


def test_padding_changes_nothing(bilstm):
    expected = [np.asarray(values) for values in bilstm(SEQUENCE, MASK)]
    other = np.where(MASK[..., None] == 1, SEQUENCE, 1e3).astype("float32")
    wider = np.pad(other, ((0, 0), (0, 5), (0, 0)), constant_values=-7)
    outputs, states = (np.asarray(values) for values in bilstm(wider, np.pad(MASK, ((0, 0), (0, 5)))))
    np.testing.assert_allclose(outputs[:, :6], expected[0], atol=1e-6)
    np.testing.assert_allclose(states, expected[1], atol=1e-6)


def test_weighted_sum_equals_that_of_elmo():
    layers = RNG.normal(size=(2, 5, 3, 4)).astype("float32")
    layer = WeightedSum()
    np.testing.assert_allclose(layer(layers), layers.mean(axis=2), atol=1e-6)
    scores = np.array([0.5, -1.0, 2.0], "float32")
    layer.scores.assign(scores)
    layer.gamma.assign([3.0])
    shares = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(layer(layers), 3.0 * np.einsum("l,bslh->bsh", shares, layers), atol=1e-5)


def test_the_factor_is_not_decayed():
    from bert_tf.optim.build import is_decayed

    layer = WeightedSum()
    layer(np.zeros((1, 1, 2, 1), "float32"))
    assert [keras.ops.shape(weight) for weight in layer.weights if not is_decayed(weight)] == [(1,)]
