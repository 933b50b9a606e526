from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_tf.data.schema import END_LOGITS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, START_LOGITS
from bert_tf.training.losses import (
    CLASSIFICATION,
    PRETRAINING,
    REGRESSION,
    SPANS,
    TrainingModel,
    cross_entropy,
    is_correct,
    pretraining_objective,
)
from tests.support.training.tiny_run import batch, build_model, loss_of


def oracle_cross_entropy(targets, logits):
    logits = logits.astype(np.float64)
    highest = logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(logits - highest).sum(-1)) + highest[..., 0]
    return log_sum - np.take_along_axis(logits, targets[..., None], -1)[..., 0]


def weighted_mean(values, weights):
    return (values * weights).sum() / weights.sum()


@pytest.mark.parametrize("shape", [(4, 3, 11), (5, 2), (1, 1, 2)])
@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_cross_entropy_and_hits_equal_the_oracle(shape, scale):
    random = np.random.default_rng(1)
    logits = (random.normal(size=shape) * scale).astype(np.float32)
    targets = random.integers(0, shape[-1], shape[:-1]).astype(np.int32)
    losses = keras.ops.convert_to_numpy(cross_entropy(targets, logits))
    assert losses.dtype == np.float32
    np.testing.assert_allclose(losses, oracle_cross_entropy(targets, logits), rtol=2e-6, atol=1e-5)
    np.testing.assert_array_equal(is_correct(targets, logits), logits.argmax(-1) == targets)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_cross_entropy_is_computed_in_float32(dtype):
    logits = keras.ops.cast(np.array([[10.0, 1.0, 0.0]]), dtype)
    loss = cross_entropy(np.array([0]), logits)
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    # In half precision the two small terms are rounded away and the loss is 0.
    np.testing.assert_allclose(loss, [np.log1p(np.exp(-9) + np.exp(-10))], rtol=1e-4)


def test_pretraining_loss_is_the_sum_of_the_weighted_means():
    keras.utils.set_random_seed(0)
    training = TrainingModel(build_model(), PRETRAINING)
    batches = [batch(step, 6) for step in range(2)]
    expected = []
    for inputs, targets, weights in batches:
        logits = {k: keras.ops.convert_to_numpy(v) for k, v in training(inputs).items()}
        loss = loss_of(training, inputs, targets, logits, weights)
        losses = {k: oracle_cross_entropy(targets[k], logits[k]) for k in targets}
        expected.append((losses, {k: logits[k].argmax(-1) == targets[k] for k in targets}, weights))
        np.testing.assert_allclose(loss, sum(weighted_mean(losses[k], weights[k]) for k in losses), rtol=1e-5)

    results = training.results()
    for prefix, key in (("mlm", MLM_LOGITS), ("nsp", NSP_LOGITS)):
        over_both = [np.concatenate([e[i][key] for e in expected]) for i in range(3)]
        assert results[f"{prefix}_loss"] == pytest.approx(weighted_mean(over_both[0], over_both[2]), rel=1e-5)
        assert results[f"{prefix}_accuracy"] == pytest.approx(weighted_mean(over_both[1], over_both[2]))
    assert results["loss"] == results["mlm_loss"] + results["nsp_loss"]
    assert float(training.tokens.result()) == sum(b[0][PADDING_MASK].sum() for b in batches)


@pytest.mark.parametrize("weight", [0.0, 0.25])
def test_next_sentence_loss_is_weighted(weight):
    training = TrainingModel(build_model(dropout=0.0), pretraining_objective("causal_lm", weight))
    inputs, targets, weights = batch(0, 6)
    logits = training(inputs)
    loss = float(loss_of(training, inputs, targets, logits, weights))
    logits = {name: keras.ops.convert_to_numpy(values) for name, values in logits.items()}
    means = {name: weighted_mean(oracle_cross_entropy(targets[name], logits[name]), weights[name]) for name in targets}
    assert loss == pytest.approx(means[MLM_LOGITS] + weight * means[NSP_LOGITS], rel=1e-5)
    results = training.results()
    assert results["loss"] == pytest.approx(loss, rel=1e-6)
    names = {"loss", "causal_lm_loss", "causal_lm_accuracy"}
    assert set(results) == names | ({"nsp_loss", "nsp_accuracy"} if weight else set())


def test_batch_without_weights_has_zero_loss():
    training = TrainingModel(build_model(), PRETRAINING)
    inputs, targets, weights = batch(0, 4)
    loss = loss_of(training, inputs, targets, training(inputs), {k: np.zeros_like(w) for k, w in weights.items()})
    assert float(loss) == 0.0
    assert set(training.results().values()) == {0.0}


@pytest.mark.parametrize("weights", [None, np.array([1.0, 0.0, 2.0, 1.0], np.float32)])
def test_classification_accepts_one_tensor_of_logits(weights):
    inputs = {PADDING_MASK: keras.Input((5,), dtype="int32", name=PADDING_MASK)}
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.ops.cast(inputs[PADDING_MASK], "float32")))
    training = TrainingModel(model, CLASSIFICATION)
    x = {PADDING_MASK: np.arange(20).reshape(4, 5) % 2}
    y = np.array([0, 2, 1, 1])
    logits = keras.ops.convert_to_numpy(model(x))
    loss = loss_of(training, x, y, logits, weights)
    w = np.ones(4) if weights is None else weights
    assert float(loss) == pytest.approx(weighted_mean(oracle_cross_entropy(y, logits), w), rel=1e-5)
    results = training.results()
    assert set(results) == {"loss", "accuracy"}
    assert results["accuracy"] == pytest.approx(weighted_mean(logits.argmax(-1) == y, w))


def test_regression_loss_is_the_squared_error():
    inputs = {PADDING_MASK: keras.Input((5,), dtype="int32", name=PADDING_MASK)}
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.ops.cast(inputs[PADDING_MASK], "float32")))
    training = TrainingModel(model, REGRESSION)
    x = {PADDING_MASK: np.arange(20).reshape(4, 5) % 3}
    y, weights = np.array([0.5, 2.0, -1.0, 5.0], np.float32), np.array([1.0, 0.0, 2.0, 1.0], np.float32)
    values = keras.ops.convert_to_numpy(model(x))
    loss = loss_of(training, x, y, values, weights)
    assert float(loss) == pytest.approx(weighted_mean((values[:, 0].astype(np.float64) - y) ** 2, weights), rel=1e-5)
    assert set(training.results()) == {"loss"}


@pytest.mark.parametrize("padding", [0, 3])
def test_span_loss_ignores_padding_positions(padding):
    """The loss is the mean of the start and end losses over the tokens of a row, for any padding."""
    random = np.random.default_rng(5)
    scores = {name: random.normal(size=(3, 4 + padding)).astype(np.float32) * 20 for name in (START_LOGITS, END_LOGITS)}
    lengths = np.array([4, 2, 3])
    mask = (np.arange(4 + padding) < lengths[:, None]).astype(np.int32)
    names = (PADDING_MASK, *scores)
    inputs = {n: keras.Input((None,), dtype="int32" if n == PADDING_MASK else "float32", name=n) for n in names}
    training = TrainingModel(keras.Model(inputs, {name: inputs[name] * 1.0 for name in scores}), SPANS)
    targets = {START_LOGITS: np.array([0, 1, 1]), END_LOGITS: np.array([3, 1, 2])}
    x = {PADDING_MASK: mask, **scores}
    loss = loss_of(training, x, targets, training(x), {name: np.ones(3, np.float32) for name in targets})
    expected = [
        oracle_cross_entropy(targets[name][row : row + 1], scores[name][row : row + 1, : lengths[row]])[0]
        for name in targets
        for row in range(3)
    ]
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-5)
    results = training.results()
    assert set(results) == {"loss", "start_loss", "start_accuracy", "end_loss", "end_accuracy"}
    assert results["loss"] == pytest.approx(np.mean(expected), rel=1e-5)


def test_the_training_model_adds_no_weights():
    model = build_model()
    training = TrainingModel(model, PRETRAINING)
    assert [v.path for v in training.trainable_weights] == [v.path for v in model.trainable_weights]
