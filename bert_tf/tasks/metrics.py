"""The official figures of labels and numbers, by scikit-learn and scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn import metrics


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the share of right labels."""
    return float(metrics.accuracy_score(list(gold), list(predicted)))


def f1(gold: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Returns the F1 of the label `positive`; 0 where it is neither right nor given anywhere."""
    right, found = ([label == positive for label in labels] for labels in (gold, predicted))
    return float(metrics.f1_score(right, found, zero_division=0.0))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the mean of the F1 of every label that is right or given somewhere."""
    return float(metrics.f1_score(list(gold), list(predicted), average="macro", zero_division=0.0))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns Matthews' correlation, of several classes too; 0 where all labels of one side are the same."""
    return float(metrics.matthews_corrcoef(list(gold), list(predicted)))


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the correlation; 0 where all numbers of one side are the same."""
    return 0.0 if _is_constant(gold) or _is_constant(predicted) else float(stats.pearsonr(gold, predicted).statistic)


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the correlation of ranks; 0 where all numbers of one side are the same."""
    return 0.0 if _is_constant(gold) or _is_constant(predicted) else float(stats.spearmanr(gold, predicted).statistic)


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns the mean of the squared differences."""
    return float(np.mean(np.square(np.subtract(gold, predicted))))


def _is_constant(numbers: Sequence[float]) -> bool:
    return len(set(numbers)) < 2
