"""A linear classifier on features that stay as they are: how much of a task they hold, in seconds.

Shape legend: N rows, F features of a row, C classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from bert_tf.data.schema import FEATURES
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.rows import PooledFeatures
from bert_tf.training.backends import Model
from bert_tf.training.fit import TrainResult
from bert_tf.training.losses import SINGLE_OUTPUT

# Inverse strengths of the L2 penalty, each tried; the strongest penalty comes first.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_MOST_ITERATIONS = 5000
# The logit of a label that no training example has.
_NEVER = -1e4


def train_probe(
    task: Task,
    build: Callable[[], keras.Model],
    rows: PooledFeatures,
    figures: Callable[[Model], Mapping[str, float]],
    measure: Callable[[Model, int], Mapping[str, float]],
) -> TrainResult:
    """Fits a logistic regression, or a ridge regression, for each of `STRENGTHS` and keeps the best one.

    Features are standardized first, each to mean 0 and deviation 1 over the training rows; the model that is built
    takes them as they are and has that in its weights. Nothing is drawn: the same rows give the same model.

    Args:
        task: of whole texts.
        build: builds a `BertProbe`.
        rows: training rows, with targets.
        figures: gives the figures of a model of features on the development set.
        measure: the same, and keeps what was built.

    Returns:
        The result, its step the number of the strength that was chosen, from 1.
    """
    began = time.perf_counter()
    scaler = StandardScaler().fit(rows.matrix)
    standard = scaler.transform(rows.matrix)
    targets = rows.targets[SINGLE_OUTPUT]
    weights = rows.weights.get(SINGLE_OUTPUT)
    model = build()
    fits = []
    for strength in STRENGTHS:
        if task.objective.squared_error:
            fit = Ridge(alpha=1.0 / strength).fit(standard, targets, weights)
        else:
            fit = LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS).fit(standard, targets, weights)
        fits.append(_unscaled(*_linear(fit, model.num_classes), scaler))
    scores = [figures(linear_model(*fit))[task.metric] for fit in fits]
    # Of equals, max takes the first, which is the simplest one.
    best = max(range(len(fits)), key=scores.__getitem__)
    model.get_layer("logits").set_weights(fits[best])
    linear = linear_model(*fits[best])
    evaluation = dict(measure(linear, best + 1))
    loss = _loss(task, linear({FEATURES: rows.matrix}), targets)
    return TrainResult(model, best + 1, loss, 0.0, evaluation, time.perf_counter() - began)


def linear_model(kernel: np.ndarray, bias: np.ndarray) -> Model:
    """Returns a function of `features` (N, F) that gives logits (N, C).

    Args:
        kernel: float32 (F, C).
        bias: float32 (C,).
    """
    return lambda inputs: inputs[FEATURES].astype(np.float32) @ kernel + bias


def _linear(fit: Any, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns kernel (F, C) and bias (C,) of what scikit-learn fitted."""
    coefficients, intercepts = np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_)
    if isinstance(fit, Ridge):
        return coefficients.T, intercepts
    if len(fit.classes_) == 2:
        # One score for two classes: half of it against half of it.
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        intercepts = np.concatenate([-intercepts, intercepts]) / 2
    kernel, bias = np.zeros((coefficients.shape[1], num_classes)), np.full(num_classes, _NEVER)
    kernel[:, fit.classes_], bias[fit.classes_] = coefficients.T, intercepts
    return kernel, bias


def _unscaled(kernel: np.ndarray, bias: np.ndarray, scaler: StandardScaler) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 kernel and bias for features that are not standardized."""
    kernel = kernel / scaler.scale_[:, None]
    return kernel.astype(np.float32), (bias - scaler.mean_ @ kernel).astype(np.float32)


def _loss(task: Task, logits: np.ndarray, targets: np.ndarray) -> float:
    if task.objective.squared_error:
        return float(np.mean((logits[:, 0] - targets) ** 2))
    return float(-np.mean(log_softmax(logits, axis=1)[np.arange(len(targets)), targets]))
