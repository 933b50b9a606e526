"""AdamW and LAMB against their formulas in float64."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import TrainingConfig
from bert_tf.training.optim.build import layer_rates, make_optimizer
from bert_tf.training.optim.optimizers import AdamW

CONFIG = TrainingConfig(learning_rate=0.05, warmup_steps=2, weight_decay=0.1, clip_norm=1.0)
PATHS = ("bert/embeddings/kernel", "bert/layer_1/dense/kernel", "bert/layer_2/dense/bias", "head/kernel")
STEPS = 6


def rates(config: TrainingConfig) -> list[float]:
    w, n, steps = config.warmup_steps, STEPS, np.arange(STEPS)
    if config.schedule == "original":
        return list(config.learning_rate * np.where(steps < w, steps / w, (n - steps) / n))
    return list(config.learning_rate * np.minimum((steps + 1) / (w + 1), (n - steps) / (n - w)))


def oracle(config: TrainingConfig, values: list[np.ndarray], gradients: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The published updates, `AdamWeightDecayOptimizer.apply_gradients`, with optional extensions."""
    values = [value.astype(np.float64) for value in values]
    m, v = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step, (rate, found) in enumerate(zip(rates(config), gradients, strict=True), start=1):
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in found))
        for i, path in enumerate(PATHS):
            g = found[i] * min(1.0, config.clip_norm / norm)
            m[i] = config.adam_beta_1 * m[i] + (1 - config.adam_beta_1) * g
            v[i] = config.adam_beta_2 * v[i] + (1 - config.adam_beta_2) * g**2
            update = m[i] / (np.sqrt(v[i]) + config.adam_epsilon)
            if config.bias_correction:
                update = update * np.sqrt(1 - config.adam_beta_2**step) / (1 - config.adam_beta_1**step)
            ratio = 1.0
            if not path.endswith("bias"):
                update = update + config.weight_decay * values[i]
                if config.optimizer == "lamb":
                    ratio = np.sqrt((values[i] ** 2).sum() / (update**2).sum())
            values[i] -= rate * config.layer_decay ** (3 - (0, 1, 2, 3)[i]) * ratio * update
    return values


def setting() -> tuple[list[keras.Variable], list[list[np.ndarray]]]:
    random = np.random.default_rng(3)
    shapes = [(7, 4), (4, 2, 2), (4,), (4, 2)]
    variables = [keras.Variable(random.normal(size=shape).astype(np.float32)) for shape in shapes]
    for variable, path in zip(variables, PATHS, strict=True):
        variable._path = path
    gradients = [[random.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(STEPS)]
    return variables, gradients


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("schedule", ["linear", "original"])
@pytest.mark.parametrize("layer_decay", [1.0, 0.7])
def test_steps_equal_the_formula(optimizer, bias_correction, schedule, layer_decay):
    config = replace(
        CONFIG, optimizer=optimizer, bias_correction=bias_correction, schedule=schedule, layer_decay=layer_decay
    )
    variables, gradients = setting()
    expected = oracle(config, [variable.numpy() for variable in variables], gradients)
    made = make_optimizer(config, STEPS, variables)
    for found in gradients:
        made.apply([tf.constant(gradient) for gradient in found])
    for variable, value in zip(variables, expected, strict=True):
        # In the first steps, bias corrections are differences of nearly equal float32 numbers.
        np.testing.assert_allclose(variable.numpy(), value, rtol=3e-4, atol=3e-5)


def test_fused_update_equals_separate_operations(monkeypatch):
    results = []
    for backend in ("tensorflow", "another"):
        variables, gradients = setting()
        made = make_optimizer(CONFIG, STEPS, variables)
        monkeypatch.setattr(keras.backend, "backend", lambda name=backend: name)
        for found in gradients:
            AdamW.apply(made, [tf.constant(gradient) for gradient in found])
        monkeypatch.undo()
        results.append([variable.numpy() for variable in variables])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_layer_decay_lowers_learning_rates_towards_the_embeddings():
    variables, _ = setting()
    assert layer_rates(variables, 0.5) == [0.125, 0.25, 0.5, 1.0]
    with pytest.raises(ValueError, match="`rate_scales` must have 4 .*Received: 1"):
        AdamW(learning_rate=0.1, rate_scales=[1.0]).build(variables)


def test_lamb_takes_a_plain_step_for_a_zero_weight():
    variables, gradients = setting()
    variables[3].assign(np.zeros((4, 2), np.float32))
    made = make_optimizer(replace(CONFIG, optimizer="lamb", warmup_steps=0), STEPS, variables)
    made.apply([tf.constant(gradient) for gradient in gradients[0]])
    assert np.isfinite(variables[3].numpy()).all()
    np.testing.assert_allclose(np.abs(variables[3].numpy()), CONFIG.learning_rate, rtol=1e-2)
