"""Statistics of single examples from which metrics and their uncertainty follow.

Every metric but Spearman's correlation is a function of sums over the examples, so that the metrics of resamples of the
examples are a product of matrices. A file of them is beside the predictions of a fine-tuning run.

Shape legend: E examples, K statistics, R resamples, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from bert_tf.config.files import staged_file

EXAMPLE_SCORES_NAME = "example_scores.npz"
MEAN, F1, MATTHEWS, CORRELATION, RANKS = "mean", "f1", "matthews", "correlation", "ranks"


@dataclass(frozen=True)
class ExampleScores:
    """Statistics of one metric.

    Args:
        kind: `mean`, `f1`, `matthews`, `correlation` or `ranks`.
        rows: statistics of each example, float64 (E, K).

    Example:
        >>> from bert_tf.tasks.example_scores import mean_scores
        >>> scores = mean_scores([1.0, 0.0, 1.0, 1.0])
        >>> float(scores.values([[1, 1, 1, 1], [0, 4, 0, 0]])[0])
        0.75
    """

    kind: str
    rows: np.ndarray

    def values(self, counts: np.ndarray | Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the metric of resamples of the examples.

        Args:
            counts: number of times that each example occurs in each resample, (R, E).

        Returns:
            The metric, float64 (R,).
        """
        if self.kind == RANKS:
            return np.array([_rank_correlation(np.repeat(self.rows, row, axis=0)) for row in np.asarray(counts)])
        return _COMBINED[self.kind](np.asarray(counts, np.float64) @ self.rows)

    @property
    def value(self) -> float:
        """The metric of all examples."""
        return float(self.values(np.ones((1, len(self.rows)), np.int64))[0])


def mean_scores(values: Sequence[float]) -> ExampleScores:
    """Returns the statistics of a mean, such as an accuracy.

    Args:
        values: value of each example.
    """
    column = np.asarray(values, np.float64)
    return ExampleScores(MEAN, np.stack([column, np.ones_like(column)], axis=1))


def f1_scores(
    correct: Sequence[int] | np.ndarray, predicted: Sequence[int] | np.ndarray, gold: Sequence[int] | np.ndarray
) -> ExampleScores:
    """Returns the statistics of an F1 over counts, such as that of entities.

    Args:
        correct: number of correct items of each example.
        predicted: number of predicted items.
        gold: number of gold items.
    """
    return ExampleScores(F1, np.stack([correct, predicted, gold], axis=1).astype(np.float64))


def label_f1_scores(gold: Sequence[str], predicted: Sequence[str], positive: str) -> ExampleScores:
    """Returns the statistics of the F1 of one label.

    Args:
        gold: gold label of each example.
        predicted: predicted labels.
        positive: the label.
    """
    golds, guesses = (np.array([label == positive for label in labels]) for labels in (gold, predicted))
    return f1_scores(golds & guesses, guesses, golds)


def matthews_scores(gold: Sequence[str], predicted: Sequence[str]) -> ExampleScores:
    """Returns the statistics of the Matthews correlation: the cell of the confusion matrix of each example.

    Args:
        gold: gold label of each example.
        predicted: predicted labels.
    """
    labels = sorted({*gold, *predicted})
    places = {label: number for number, label in enumerate(labels)}
    cells = [places[one] * len(labels) + places[other] for one, other in zip(gold, predicted, strict=True)]
    return ExampleScores(MATTHEWS, np.eye(len(labels) ** 2)[cells])


def correlation_scores(gold: Sequence[float], predicted: Sequence[float]) -> ExampleScores:
    """Returns the statistics of Pearson's correlation.

    Args:
        gold: gold number of each example.
        predicted: predicted numbers.
    """
    return ExampleScores(CORRELATION, _moments(np.stack([gold, predicted], axis=1)))


def rank_correlation_scores(gold: Sequence[float], predicted: Sequence[float]) -> ExampleScores:
    """Returns the statistics of Spearman's rank correlation: the numbers themselves.

    Args:
        gold: gold number of each example.
        predicted: predicted numbers.
    """
    return ExampleScores(RANKS, np.stack([gold, predicted], axis=1).astype(np.float64))


def write_example_scores(path: Path, scores: Mapping[str, ExampleScores]) -> None:
    """Writes statistics by the name of their metric, atomically.

    Args:
        path: the file.
        scores: the statistics.
    """
    with staged_file(path) as file:
        arrays = {f"{one.kind}:{name}": one.rows for name, one in scores.items()}
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_example_scores(path: Path) -> dict[str, ExampleScores]:
    """Returns the statistics of a file by the name of their metric.

    Args:
        path: the file.

    Raises:
        OSError: if it cannot be read.
    """
    with np.load(path, allow_pickle=False) as file:
        keys = [(key, *key.partition(":")[::2]) for key in file.files]
        return {name: ExampleScores(kind, file[key]) for key, kind, name in keys}


def _mean(sums: np.ndarray) -> np.ndarray:
    return _share(sums[:, 0], sums[:, 1])


def _f1(sums: np.ndarray) -> np.ndarray:
    return _share(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def _matthews(sums: np.ndarray) -> np.ndarray:
    """Returns the correlation of confusion matrices, (R, C * C), for any number of labels."""
    size = round(sums.shape[1] ** 0.5)
    matrix = sums.reshape(-1, size, size)
    gold, predicted, total = matrix.sum(2), matrix.sum(1), sums.sum(1)
    covariance = np.trace(matrix, axis1=1, axis2=2) * total - (gold * predicted).sum(1)
    variances = (total**2 - (gold**2).sum(1)) * (total**2 - (predicted**2).sum(1))
    return _share(covariance, np.sqrt(variances))


def _moments(pairs: np.ndarray) -> np.ndarray:
    """Returns the powers of pairs of numbers, (E, 2), from whose sums their correlation follows."""
    # Centred values lose fewer digits in the sums of squares.
    x, y = (pairs - pairs.mean(axis=0)).T
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _rank_correlation(pairs: np.ndarray) -> float:
    """Returns the correlation of the ranks of pairs of numbers, (E, 2)."""
    return float(_correlation(_moments(rankdata(pairs, axis=0)).sum(axis=0, keepdims=True))[0])


def _correlation(sums: np.ndarray) -> np.ndarray:
    count, x, y, xx, yy, xy = sums.T
    variances = (count * xx - x * x) * (count * yy - y * y)
    return _share(count * xy - x * y, np.sqrt(np.maximum(variances, 0.0)))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Returns `part / whole`, 0 where `whole` is 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


_COMBINED = {MEAN: _mean, F1: _f1, MATTHEWS: _matthews, CORRELATION: _correlation}
