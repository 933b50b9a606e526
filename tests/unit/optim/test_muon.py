"""Muon against its formula in float64, and against `torch.optim.Muon`."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import BertConfig, ConfigError, TrainingConfig
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier, BertTokenClassifier
from bert_tf.optim.build import make_optimizer, matrix_axes, set_halved
from bert_tf.optim.muon import SCALES, Muon, orthogonalize
from bert_tf.optim.optimizers import LossScaleOptimizer
from tests.support.paths import TESTDATA
from tests.support.training import optimizer_peers

CONFIG = TrainingConfig(
    optimizer="muon", learning_rate=0.05, matrix_learning_rate=0.02, warmup_steps=0, weight_decay=0.1, clip_norm=1.0
)
STEPS = 6
# Path, shape and leading axes of the input; 0 for AdamW.
VARIABLES = {
    "embeddings/token_embedding/embeddings": ((9, 4), 0),
    "layer_1/self_attention_layer/query/kernel": ((4, 2, 2), 1),
    "layer_1/self_attention_layer/query/bias": ((2, 2), 0),
    "layer_1/self_attention_layer/attention_output/kernel": ((2, 2, 4), 2),
    "layer_2/feedforward_intermediate_dense/kernel": ((4, 8), 1),
    "layer_2/feedforward_output_dense/kernel": ((8, 4), 1),
    "pooler/kernel": ((4, 4), 0),
    "mlm_logits/dense/kernel": ((4, 4), 0),
}


def polynomial(values: np.ndarray, steps: int = 5) -> np.ndarray:
    for _ in range(steps):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return values


def oracle_orthogonalize(matrix: np.ndarray, steps: int = 5) -> np.ndarray:
    """Newton-Schulz iterations keep the singular vectors and apply a polynomial to the singular values."""
    left, values, right = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    return (left * polynomial(values / max(np.linalg.norm(matrix), 1e-7), steps)) @ right


def setting() -> tuple[list[keras.Variable], list[list[np.ndarray]]]:
    random = np.random.default_rng(3)
    variables = []
    for path, (shape, _) in VARIABLES.items():
        variables.append(keras.Variable(random.normal(size=shape).astype(np.float32)))
        variables[-1]._path = path
    shapes = [shape for shape, _ in VARIABLES.values()]
    return variables, [[random.normal(size=shape).astype(np.float32) for shape in shapes] for _ in range(STEPS)]


def oracle(config: TrainingConfig, values: list[np.ndarray], gradients: list[list[np.ndarray]]) -> list[np.ndarray]:
    values = [value.astype(np.float64) for value in values]
    m, v = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step, found in enumerate(gradients, start=1):
        share = (STEPS - step + 1) / STEPS
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in found))
        for i, (path, (shape, axes)) in enumerate(VARIABLES.items()):
            height = {"embeddings": 0, "layer_1": 1, "layer_2": 2}.get(path.split("/")[0], 3)
            factor = share * config.layer_decay ** (3 - height)
            if axes:
                mu = config.matrix_momentum
                m[i] = mu * m[i] + (1 - mu) * found[i]
                inputs = int(np.prod(shape[:axes]))
                direction = (mu * m[i] + (1 - mu) * found[i]).reshape(inputs, -1)
                outputs = direction.shape[1]
                scales = {"rms": 0.2 * max(inputs, outputs) ** 0.5, "original": max(1, outputs / inputs) ** 0.5}
                update = scales[config.matrix_scale] * oracle_orthogonalize(direction, config.newton_schulz_steps)
                rate = config.matrix_learning_rate if config.matrix_learning_rate > 0 else config.learning_rate
                update = update.reshape(shape)
            else:
                g = found[i] * min(1.0, config.clip_norm / norm)
                m[i] = config.adam_beta_1 * m[i] + (1 - config.adam_beta_1) * g
                v[i] = config.adam_beta_2 * v[i] + (1 - config.adam_beta_2) * g**2
                correction = np.sqrt(1 - config.adam_beta_2**step) / (1 - config.adam_beta_1**step)
                update, rate = correction * m[i] / (np.sqrt(v[i]) + config.adam_epsilon), config.learning_rate
            decay = 0.0 if path.endswith("bias") else config.weight_decay
            values[i] = values[i] - factor * rate * (update + decay * values[i])
    return values


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"matrix_scale": "original", "layer_decay": 0.7},
        {"matrix_learning_rate": -1.0, "matrix_momentum": 0.8, "newton_schulz_steps": 3},
    ],
)
def test_steps_equal_the_formula(changes):
    config = replace(CONFIG, **changes)
    variables, gradients = setting()
    expected = oracle(config, [variable.numpy() for variable in variables], gradients)
    optimizer = make_optimizer(config, STEPS, variables)
    for found in gradients:
        optimizer.apply([tf.constant(gradient) for gradient in found])
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=3e-4, atol=3e-5, err_msg=variable.path)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(1e-4, 1e4))
def test_orthogonalization_keeps_the_singular_vectors(rows, columns, steps, seed, size):
    matrix = (size * np.random.default_rng(seed).normal(size=(rows, columns))).astype(np.float32)
    found = np.asarray(orthogonalize(tf.constant(matrix), steps))
    # Each iteration multiplies an error of float32 by at most its slope at zero, 3.4445.
    bound = 64 * 2.0**-23 * 3.4445**steps
    np.testing.assert_allclose(found, oracle_orthogonalize(matrix, steps), atol=bound)


def test_orthogonal_steps_have_singular_values_near_one():
    values = polynomial(np.geomspace(0.005, 1.0, 2000))
    assert 0.65 < values.min() < 0.75
    assert 1.1 < values.max() < 1.25


def test_a_zero_gradient_moves_nothing_but_the_decay():
    variables, gradients = setting()
    before = [variable.numpy() for variable in variables]
    optimizer = make_optimizer(replace(CONFIG, matrix_learning_rate=-1.0), STEPS, variables)
    optimizer.apply([tf.zeros_like(gradient) for gradient in gradients[0]])
    for variable, value in zip(variables, before, strict=True):
        decay = 0.0 if variable.path.endswith("bias") else CONFIG.weight_decay
        np.testing.assert_allclose(variable.numpy(), value * (1 - CONFIG.learning_rate * decay), rtol=1e-6)


def test_hidden_matrices_are_chosen_by_role():
    model = BertPretrainer(BertBackbone(BertConfig.from_size("tiny", vocabulary_size=20)))
    axes = {variable.path: matrix_axes(variable) for variable in model.trainable_variables}
    chosen = {path: number for path, number in axes.items() if number}
    assert len(chosen) == 2 * 6
    assert all(path.startswith("layer_") and path.endswith("/kernel") for path in chosen)
    assert {path for path, number in chosen.items() if number == 2} == {
        f"layer_{layer}/self_attention_layer/attention_output/kernel" for layer in (1, 2)
    }
    for path, (_, expected) in VARIABLES.items():
        assert axes[path] == expected, path


@pytest.mark.parametrize("kind", [BertTextClassifier, BertTokenClassifier])
def test_encoders_of_task_models_have_the_same_matrices(kind):
    model = kind(BertBackbone(BertConfig.from_size("tiny", vocabulary_size=20)), num_classes=3)
    assert sum(1 for variable in model.trainable_variables if matrix_axes(variable)) == 2 * 6


def test_halving_after_a_loss_that_is_not_finite_halves_the_rate_of_matrices():
    moved = []
    for halved in ((), (0,)):
        variables, gradients = setting()
        before = [variable.numpy() for variable in variables]
        optimizer = make_optimizer(CONFIG, STEPS, variables)
        set_halved(optimizer, halved)
        optimizer.apply([tf.constant(gradient) for gradient in gradients[0]])
        moved.append([variable.numpy() - value for variable, value in zip(variables, before, strict=True)])
    for whole, half in zip(*moved, strict=True):
        np.testing.assert_allclose(half, whole / 2, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("clip", [1.0, 1e-3, 0.0])
def test_clipping_leaves_the_steps_of_matrices_unchanged(clip):
    moved = []
    for norm in (clip, 1e6):
        variables, gradients = setting()
        optimizer = make_optimizer(replace(CONFIG, clip_norm=norm), STEPS, variables)
        for found in gradients[:2]:
            optimizer.apply([tf.constant(gradient) for gradient in found])
        moved.append([variable.numpy() for variable in variables])
    for axes, one, other in zip((axes for _, axes in VARIABLES.values()), *moved, strict=True):
        if axes:
            np.testing.assert_array_equal(one, other)
    assert not np.array_equal(moved[0][0], moved[1][0]) or clip == 0.0


def test_matrices_have_one_moment():
    variables, _ = setting()
    optimizer = make_optimizer(CONFIG, STEPS, variables)
    adamw = make_optimizer(replace(CONFIG, optimizer="adamw"), STEPS, variables)
    matrices = sum(1 for _, axes in VARIABLES.values() if axes)
    assert len(adamw.variables) - len(optimizer.variables) == matrices


def test_iterations_in_bfloat16_stay_near_those_in_float32():
    """The reference iterates in bfloat16; its roundings, 2**-8 each, move singular values within their usual range."""
    matrix = tf.constant(np.random.default_rng(1).normal(size=(24, 40)).astype(np.float32))
    found = orthogonalize(matrix, dtype="bfloat16")
    assert found.dtype == tf.float32
    values = np.linalg.svd(found.numpy(), compute_uv=False)
    assert values.min() > 0.5
    assert values.max() < 1.4
    cosine = np.sum(found.numpy() * oracle_orthogonalize(matrix.numpy())) / np.linalg.norm(found)
    assert cosine / np.linalg.norm(oracle_orthogonalize(matrix.numpy())) > 0.99


def test_configuration_is_restored():
    variables, _ = setting()
    optimizer = make_optimizer(replace(CONFIG, matrix_momentum=0.9, newton_schulz_steps=4), STEPS, variables)
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(restored, Muon)
    assert restored.get_config() == optimizer.get_config()
    with pytest.raises(ValueError, match="`matrix_axes` must have 8 .*Received: 1"):
        Muon(matrix_axes=[1], learning_rate=0.1).build(variables)


def test_loss_scaling_skips_an_overflow_and_takes_the_other_steps():
    variables, gradients = setting()
    plain, _ = setting()
    scaled = make_optimizer(replace(CONFIG, precision="float16"), STEPS, variables)
    assert isinstance(scaled, LossScaleOptimizer)
    unscaled = make_optimizer(CONFIG, STEPS, plain)
    scaled.apply([tf.fill(gradient.shape, np.inf) for gradient in gradients[0]])
    scale = float(scaled.scale_loss(1.0))
    for found in gradients:
        scaled.apply([tf.constant(gradient * scale) for gradient in found])
        unscaled.apply([tf.constant(gradient) for gradient in found])
    for one, other in zip(variables, plain, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_fifty_steps_equal_those_of_torch(scale):
    """The peer's Newton-Schulz iterations were in float32; its AdamW adds epsilon after the bias correction."""
    peers = optimizer_peers
    variables = {name: keras.Variable(value) for name, value in peers.initial().items()}
    optimizer = Muon(
        matrix_axes=[int(name in peers.MATRICES) for name in variables],
        matrix_scale=scale,
        momentum=peers.MOMENTUM,
        learning_rate=peers.RATE,
        weight_decay=peers.DECAY,
        beta_1=peers.BETAS[0],
        beta_2=peers.BETAS[1],
        epsilon=peers.EPSILON,
        epsilon_form="torch",
    )
    optimizer.build(list(variables.values()))
    for step in range(peers.STEPS):
        optimizer.apply([tf.constant(gradient) for gradient in peers.gradients(step).values()])
    with np.load(TESTDATA / "optimizers/torch.npz") as golden:
        for name, variable in variables.items():
            moved = np.abs(golden[f"{scale}/{name}"] - peers.initial()[name]).max()
            np.testing.assert_allclose(variable.numpy(), golden[f"{scale}/{name}"], atol=1e-4 * moved, err_msg=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [("matrix_learning_rate", 0.0), ("matrix_momentum", 1.0), ("newton_schulz_steps", 0), ("matrix_scale", "spectral")],
)
def test_invalid_settings_are_refused(field, value):
    with pytest.raises(ConfigError, match=f"`training.{field}` .*Received"):
        TrainingConfig(**{field: value})
