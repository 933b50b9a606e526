"""Classification metrics: confusion matrix, metrics by label, calibration.

Shape legend: N rows, C labels, B bins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels

BINS = 10


@dataclass(frozen=True)
class Scores:
    """Metrics and counts of one label; undefined metrics are 0."""

    label: str
    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int


def scores_of(labels: Sequence[str], gold: Sequence[int], predicted: Sequence[int]) -> list[Scores]:
    """Computes the scores of every label from the true and predicted label of each row: an index, or -1 for none."""
    if not len(gold):
        return [Scores(label, 0.0, 0.0, 0.0, 0, 0) for label in labels]
    precision, recall, f1, support = precision_recall_fscore_support(
        gold, predicted, labels=list(range(len(labels))), zero_division=0.0
    )
    counts = Counter(predicted)
    return [
        Scores(label, float(precision[n]), float(recall[n]), float(f1[n]), int(support[n]), counts[n])
        for n, label in enumerate(labels)
    ]


@dataclass(frozen=True)
class Calibration:
    """Calibration by predicted probability, in bins of equal width (arXiv 1706.04599, section 2).

    Rows of each bin, mean probability of the predicted label, and accuracy: (B,) each; 0 for empty bins.
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
    """A misclassified row, with its predicted label, and the probabilities of the predicted and the true label."""

    row: ScoredLabel
    predicted: str
    predicted_probability: float
    gold_probability: float


class LabelMetrics:
    """Metrics of predicted labels; true labels missing from `scored.labels` are appended to them."""

    def __init__(self, scored: ScoredLabels) -> None:
        self._rows = scored.rows
        known = set(scored.labels)
        self.labels = (*scored.labels, *sorted({row.gold for row in scored.rows} - known))
        number = {label: number for number, label in enumerate(self.labels)}
        probabilities = np.array([row.probabilities for row in scored.rows], np.float64)
        # A diverged model predicts NaN.
        self._probabilities = np.nan_to_num(probabilities.reshape(len(scored.rows), len(scored.labels)))
        self._predicted = self._probabilities.argmax(axis=1)
        self._gold = np.array([number[row.gold] for row in scored.rows], np.int64)

    @cached_property
    def confusion(self) -> np.ndarray:
        """The confusion matrix, true by predicted label: int64 (C, C)."""
        if not self._rows:
            return np.zeros((len(self.labels), len(self.labels)), np.int64)
        return confusion_matrix(self._gold, self._predicted, labels=list(range(len(self.labels))))

    def scores(self) -> list[Scores]:
        """Returns the scores of every label, in the order of `labels`."""
        return scores_of(self.labels, self._gold.tolist(), self._predicted.tolist())

    def calibration(self, bins: int = BINS) -> Calibration:
        """Returns the calibration in bins of (0, 1 / B], (1 / B, 2 / B] and so on."""
        # scikit-learn's `calibration_curve` does not return the counts of the bins.
        confidence = self._probabilities.max(axis=1, initial=0.0)
        bin_of = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
        counts = np.bincount(bin_of, minlength=bins)
        sums = (np.bincount(bin_of, values, bins) for values in (confidence, self._gold == self._predicted))
        return Calibration(counts, *(values / np.maximum(counts, 1) for values in sums))

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
