"""Classification metrics: confusion matrix, metrics by label, calibration.

Shape legend: N rows, C labels, B bins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels

BINS = 10


@dataclass(frozen=True)
class Scores:
    """Counts and metrics of one label.

    Args:
        label: name of the label.
        gold: number of rows with this true label.
        predicted: number of rows with this predicted label.
        right: number of rows with both.
    """

    label: str
    gold: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """Precision; 0 if the label is never predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Recall; 0 if no row has the label."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if neither is defined."""
        return 2 * self.right / (self.gold + self.predicted) if self.gold + self.predicted else 0.0


@dataclass(frozen=True)
class Calibration:
    """Calibration by predicted probability, in bins of equal width (arXiv 1706.04599, section 2).

    Args:
        counts: int64 (B,), number of rows in each bin.
        confidence: float64 (B,), mean probability of the predicted label; 0 for empty bins.
        accuracy: float64 (B,), accuracy; 0 for empty bins.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error: mean distance of confidence and accuracy over all rows."""
        return float((self.counts * np.abs(self.confidence - self.accuracy)).sum() / max(self.counts.sum(), 1))

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy."""
        return float((self.counts * (self.confidence - self.accuracy)).sum() / max(self.counts.sum(), 1))


@dataclass(frozen=True)
class Mistake:
    """A misclassified row.

    Args:
        row: the row with its true label.
        predicted: predicted label.
        predicted_probability: probability of the predicted label.
        gold_probability: probability of the true label.
    """

    row: ScoredLabel
    predicted: str
    predicted_probability: float
    gold_probability: float


class LabelFigures:
    """Metrics of predicted labels.

    Args:
        scored: predictions with their true labels. True labels missing from `scored.labels` are appended to them.
    """

    def __init__(self, scored: ScoredLabels) -> None:
        self._rows = scored.rows
        known = set(scored.labels)
        self.labels = (*scored.labels, *sorted({row.gold for row in scored.rows} - known))
        self._number = {label: number for number, label in enumerate(self.labels)}
        probabilities = np.array([row.probabilities for row in scored.rows], np.float64)
        # A diverged model predicts NaN.
        self._probabilities = np.nan_to_num(probabilities.reshape(len(scored.rows), len(scored.labels)))
        self._predicted = self._probabilities.argmax(axis=1)
        self._gold = np.array([self._number[row.gold] for row in scored.rows], np.int64)

    @cached_property
    def confusion(self) -> np.ndarray:
        """The confusion matrix, true by predicted label: int64 (C, C)."""
        size = len(self.labels)
        flat = np.bincount(self._gold * size + self._predicted, minlength=size * size)
        return flat.reshape(size, size)

    @property
    def accuracy(self) -> float:
        """The accuracy; 0 without rows."""
        return float((self._gold == self._predicted).mean()) if len(self._rows) else 0.0

    def scores(self) -> list[Scores]:
        """Returns the scores of every label, in the order of `labels`."""
        gold, predicted, right = self.confusion.sum(axis=1), self.confusion.sum(axis=0), np.diag(self.confusion)
        counts = zip(gold.tolist(), predicted.tolist(), right.tolist(), strict=True)
        return [Scores(label, *three) for label, three in zip(self.labels, counts, strict=True)]

    def calibration(self, bins: int = BINS) -> Calibration:
        """Returns the calibration in bins of (0, 1 / B], (1 / B, 2 / B] and so on."""
        confidence = self._probabilities.max(axis=1, initial=0.0)
        bin_of = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
        counts = np.bincount(bin_of, minlength=bins)
        divisor = np.maximum(counts, 1)
        right = self._gold == self._predicted
        return Calibration(
            counts,
            np.bincount(bin_of, confidence, minlength=bins) / divisor,
            np.bincount(bin_of, right, minlength=bins) / divisor,
        )

    def mistakes(self) -> Iterator[Mistake]:
        """Yields the misclassified rows in order."""
        for number in np.flatnonzero(self._gold != self._predicted).tolist():
            row, gold, predicted = self._rows[number], int(self._gold[number]), int(self._predicted[number])
            shares = self._probabilities[number]
            of_gold = float(shares[gold]) if gold < len(shares) else 0.0
            yield Mistake(row, self.labels[predicted], float(shares[predicted]), of_gold)

    def confused(self) -> list[tuple[str, str, int, float]]:
        """Returns true label, predicted label, count and share of the true label's rows, the most frequent first."""
        totals = self.confusion.sum(axis=1)
        pairs = [
            (self.labels[gold], self.labels[predicted], int(count), float(count / totals[gold]))
            for (gold, predicted), count in np.ndenumerate(self.confusion)
            if count and gold != predicted
        ]
        return sorted(pairs, key=lambda pair: (-pair[2], -pair[3]))
