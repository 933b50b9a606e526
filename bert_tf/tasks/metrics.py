"""Metrics of labels and numbers, computed with scikit-learn and SciPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn import metrics


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the accuracy."""
    return float(metrics.accuracy_score(list(gold), list(predicted)))


def f1(gold: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Returns the F1 of the label `positive`; 0 if it occurs neither in `gold` nor in `predicted`."""
    gold_mask, predicted_mask = ([label == positive for label in labels] for labels in (gold, predicted))
    return float(metrics.f1_score(gold_mask, predicted_mask, zero_division=0.0))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the mean F1 over all labels that occur in `gold` or `predicted`."""
    return float(metrics.f1_score(list(gold), list(predicted), average="macro", zero_division=0.0))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the Matthews correlation, also for several classes; 0 if `gold` or `predicted` is constant."""
    return float(metrics.matthews_corrcoef(list(gold), list(predicted)))


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the Pearson correlation; 0 if `gold` or `predicted` is constant."""
    return 0.0 if _is_constant(gold) or _is_constant(predicted) else float(stats.pearsonr(gold, predicted).statistic)


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the Spearman rank correlation; 0 if `gold` or `predicted` is constant."""
    return 0.0 if _is_constant(gold) or _is_constant(predicted) else float(stats.spearmanr(gold, predicted).statistic)


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the mean squared error."""
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def _is_constant(numbers: Sequence[float]) -> bool:
    return len(set(numbers)) < 2
