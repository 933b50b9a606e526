from __future__ import annotations

import numpy as np
import pytest

from bert_tf.reports.tasks.label_metrics import LabelMetrics
from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels


def random_answers(labels: int, rows: int, seed: int = 0) -> ScoredLabels:
    rng = np.random.default_rng(seed)
    names = tuple(f"label{number}" for number in range(labels))
    shares = rng.dirichlet(np.full(labels, 0.4), rows)
    gold = np.where(rng.random(rows) < 0.6, shares.argmax(axis=1), rng.integers(0, labels, rows))
    return ScoredLabels(
        names,
        [
            ScoredLabel(f"dev.tsv:{number + 2}", (("text", f"text {number}"),), names[g], tuple(p.tolist()))
            for number, (g, p) in enumerate(zip(gold, shares, strict=True))
        ],
    )


def chosen(scored: ScoredLabels, row: ScoredLabel) -> str:
    return scored.labels[int(np.argmax(row.probabilities))]


@pytest.mark.parametrize("labels", [2, 3, 8, 40])
def test_confusions_and_scores_are_counts(labels: int) -> None:
    scored = random_answers(labels, 300)
    metrics = LabelMetrics(scored)
    for gold, name in enumerate(scored.labels):
        for given, other in enumerate(scored.labels):
            count = sum(row.gold == name and chosen(scored, row) == other for row in scored.rows)
            assert metrics.confusion[gold, given] == count
    for score in metrics.scores():
        given = [row for row in scored.rows if chosen(scored, row) == score.label]
        there = [row for row in scored.rows if row.gold == score.label]
        right = [row for row in given if row.gold == score.label]
        assert (score.predicted, score.gold) == (len(given), len(there))
        precision, recall = len(right) / max(len(given), 1), len(right) / max(len(there), 1)
        assert (score.precision, score.recall) == pytest.approx((precision, recall))
        assert score.f1 == pytest.approx(2 * precision * recall / (precision + recall) if right else 0)
    pairs = metrics.confused()
    assert sum(count for _, _, count, _ in pairs) == len(list(metrics.mistakes()))
    assert [count for _, _, count, _ in pairs] == sorted((count for _, _, count, _ in pairs), reverse=True)


@pytest.mark.parametrize(("labels", "bins"), [(2, 10), (5, 10), (5, 15)])
def test_calibration_error_equals_that_of_the_paper(labels: int, bins: int) -> None:
    scored = random_answers(labels, 400, seed=3)
    calibration = LabelMetrics(scored).calibration(bins)
    error = 0.0
    for number in range(bins):
        inside = [row for row in scored.rows if number / bins < max(row.probabilities) <= (number + 1) / bins]
        assert calibration.counts[number] == len(inside)
        if inside:
            right = np.mean([row.gold == chosen(scored, row) for row in inside])
            error += len(inside) / 400 * abs(right - np.mean([max(row.probabilities) for row in inside]))
    assert calibration.error == pytest.approx(error)
    mean = np.mean([max(row.probabilities) - (row.gold == chosen(scored, row)) for row in scored.rows])
    assert calibration.overconfidence == pytest.approx(mean)


def test_unknown_labels_and_invalid_numbers() -> None:
    rows = [ScoredLabel("1", (), "new", (0.25, 0.75)), ScoredLabel("2", (), "b", (float("nan"), float("nan")))]
    metrics = LabelMetrics(ScoredLabels(("a", "b"), rows))
    assert metrics.labels == ("a", "b", "new")
    assert metrics.confusion.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert [(m.predicted, m.predicted_probability, m.gold_probability) for m in metrics.mistakes()] == [
        ("b", 0.75, 0.0), ("a", 0.0, 0.0)
    ]  # fmt: skip
    assert metrics.calibration().counts.sum() == 2
