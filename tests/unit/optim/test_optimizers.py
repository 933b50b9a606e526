"""AdamW and LAMB against their formulas in float64, and against the optimizers of other programs."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import TrainingConfig
from bert_tf.optim.build import layer_rates, make_optimizer
from bert_tf.optim.optimizers import AdamW
from bert_tf.optim.schedules import OriginalWarmupDecay
from tests.support.paths import TESTDATA
from tests.support.training import optimizer_peers as peers

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
            first, second = m[i], v[i]
            if config.bias_correction:
                first, second = m[i] / (1 - config.adam_beta_1**step), v[i] / (1 - config.adam_beta_2**step)
            epsilon = config.adam_epsilon
            if config.bias_correction and config.adam_epsilon_form == "tensorflow":
                epsilon /= np.sqrt(1 - config.adam_beta_2**step)
            update = first / (np.sqrt(second) + epsilon)
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
@pytest.mark.parametrize(("form", "epsilon"), [("tensorflow", 1e-6), ("tensorflow", 0.1), ("torch", 0.1)])
def test_steps_equal_the_formula(optimizer, bias_correction, schedule, layer_decay, form, epsilon):
    # The larger epsilon is as large as the moments, so that its form matters.
    config = replace(
        CONFIG, optimizer=optimizer, bias_correction=bias_correction, schedule=schedule, layer_decay=layer_decay,
        adam_epsilon=epsilon, adam_epsilon_form=form,
    )  # fmt: skip
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


def steps_of(optimizer: keras.optimizers.Optimizer, steps: int) -> dict[str, np.ndarray]:
    """Returns the weights after the steps that the peers took, (steps, ...) by name."""
    variables = {name: keras.Variable(value) for name, value in peers.initial().items()}
    optimizer.build(list(variables.values()))
    optimizer.exclude_from_weight_decay(var_list=[variables[name] for name in variables if "kernel" not in name])
    history = []
    for step in range(steps):
        found = peers.gradients(step)
        optimizer.apply([tf.constant(found[name]) for name in variables])
        history.append({name: variable.numpy() for name, variable in variables.items()})
    return {name: np.stack([weights[name] for weights in history]) for name in variables}


def assert_equal_paths(found: np.ndarray, expected: np.ndarray, start: np.ndarray, name: str) -> None:
    moved = np.abs(expected - start).max()
    np.testing.assert_allclose(found, expected, atol=1e-4 * moved, rtol=0, err_msg=name)


def test_tensorflow_form_of_epsilon_equals_keras():
    settings = {
        "learning_rate": peers.RATE, "beta_1": peers.BETAS[0], "beta_2": peers.BETAS[1], "epsilon": peers.EPSILON,
        "weight_decay": peers.DECAY,
    }  # fmt: skip
    mine = steps_of(AdamW(**settings), peers.STEPS)
    theirs = steps_of(keras.optimizers.AdamW(**settings), peers.STEPS)
    for name, start in peers.initial().items():
        assert_equal_paths(mine[name], theirs[name], start, name)


def test_torch_form_of_epsilon_equals_torch():
    """The recorded AdamW of torch trained these two weights; Muon trained the others (`test_muon`)."""
    names = [name for name in peers.SHAPES if name not in peers.MATRICES]
    variables = {name: keras.Variable(peers.initial()[name]) for name in names}
    forms = {}
    for form in ("torch", "tensorflow"):
        optimizer = AdamW(
            learning_rate=peers.RATE, weight_decay=peers.DECAY, beta_1=peers.BETAS[0], beta_2=peers.BETAS[1],
            epsilon=peers.EPSILON, epsilon_form=form,
        )  # fmt: skip
        optimizer.build(list(variables.values()))
        for name, variable in variables.items():
            variable.assign(peers.initial()[name])
        for step in range(peers.STEPS):
            optimizer.apply([tf.constant(peers.gradients(step)[name]) for name in names])
        forms[form] = {name: variable.numpy() for name, variable in variables.items()}
    with np.load(TESTDATA / "optimizers/torch.npz") as golden:
        for name in names:
            expected, start = golden[f"rms/{name}"], peers.initial()[name]
            assert_equal_paths(forms["torch"][name], expected, start, name)
            assert np.abs(forms["tensorflow"][name] - expected).max() > 1e-2 * np.abs(expected - start).max()


def test_original_schedule_takes_the_steps_of_the_original_program():
    optimizer = AdamW(
        learning_rate=OriginalWarmupDecay(peers.PEAK, peers.WARMUP, peers.TOTAL), bias_correction=False,
        weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0,
    )  # fmt: skip
    mine = steps_of(optimizer, peers.TOTAL)
    with np.load(TESTDATA / "optimizers/original.npz") as golden:
        for name, start in peers.initial().items():
            assert_equal_paths(mine[name], golden[name], start, name)
            # Its first step has the rate 0.
            np.testing.assert_array_equal(golden[name][0], start)
