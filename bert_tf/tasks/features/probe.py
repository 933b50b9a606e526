"""Linear probe: a linear classifier on frozen features, trained in seconds.

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

from bert_tf.data.schema import FEATURES, SINGLE_OUTPUT
from bert_tf.encoding.rows import Model
from bert_tf.tasks.base import Task
from bert_tf.tasks.features.rows import PooledFeatures
from bert_tf.training.fit import TrainResult

# Inverse strengths of the L2 penalty, all tried; the strongest penalty comes first.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_MOST_ITERATIONS = 5000
# Logit of a label that does not occur in training.
_NEVER = -1e4


def train_probe(
    task: Task,
    build: Callable[[], keras.Model],
    rows: PooledFeatures,
    evaluate: Callable[[Model], Mapping[str, float]],
    measure: Callable[[Model, int], Mapping[str, float]],
) -> TrainResult:
    """Fits a logistic or ridge regression for each of `STRENGTHS` and keeps the best one.

    Features are standardized to mean 0 and deviation 1 over the training rows; the scaling is folded into the model's
    weights. Training is deterministic: the same rows produce the same model. `build` builds a `BertProbe`. `evaluate`
    returns the metrics of a model of features on the development set; `measure` also saves the model from `build`. The
    step of the result is the number of the selected strength, from 1.
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
    scores = [evaluate(linear_model(*fit))[task.metric] for fit in fits]
    # Of equal scores, max selects the first, which has the strongest penalty.
    best = max(range(len(fits)), key=scores.__getitem__)
    model.get_layer("logits").set_weights(fits[best])
    linear = linear_model(*fits[best])
    evaluation = dict(measure(linear, best + 1))
    loss = _loss(task, linear({FEATURES: rows.matrix}), targets)
    return TrainResult(model, best + 1, loss, 0.0, evaluation, time.perf_counter() - began)


def linear_model(kernel: np.ndarray, bias: np.ndarray) -> Model:
    """Returns a function from `features` (N, F) to logits (N, C), of float32 `kernel` (F, C) and `bias` (C,)."""
    return lambda inputs: inputs[FEATURES].astype(np.float32) @ kernel + bias


def _linear(fit: Any, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns kernel (F, C) and bias (C,) of a fitted scikit-learn model."""
    coefficients, intercepts = np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_)
    if isinstance(fit, Ridge):
        return coefficients.T, intercepts
    if len(fit.classes_) == 2:
        # One score for two classes: split into halves of opposite sign.
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
