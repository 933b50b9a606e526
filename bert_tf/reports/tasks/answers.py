"""HTML page of a model's predictions: metrics, confusions, and the worst errors with their texts.

The page is self-contained, without scripts or network access, and limited to a few megabytes for any texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.reports.charts import MOST_DOTS, Bar, Chart, column_chart, heat_chart, reliability_chart, scatter_chart
from bert_tf.reports.page import render, write_page
from bert_tf.reports.tasks.label_metrics import Calibration, LabelMetrics
from bert_tf.reports.tasks.scored import Scored, ScoredLabels, ScoredNumber, ScoredNumbers
from bert_tf.reports.tasks.spans import entity_context, question_context
from bert_tf.reports.text import SHOWN_WORST, cut, format_metric, named, percent, worst

ANSWERS_NAME = "answers.html"
# Maximum labels of a matrix with numbers, of a matrix as a chart (rarer labels are merged), and of the table of scores.
_MOST_IN_NUMBERS, _MOST_DRAWN, _MOST_LISTED = 12, 60, 300
# Up to this many labels, the matrix and the calibration are placed side by side.
_MOST_BESIDE = 3
_MOST_CONFUSED = 15
_OTHERS = "all others"
# Bars in the histogram of residuals.
_BINS = 24


def write_answers_page(path: Path, title: str, scored: Scored, metrics: Mapping[str, float], remark: str) -> None:
    """Writes the page atomically; `remark` is a warning about the predictions as a whole, or empty."""
    if isinstance(scored, ScoredLabels):
        template, context, rows = "labels.html.jinja", label_context(scored), len(scored.rows)
    elif isinstance(scored, ScoredNumbers):
        template, context, rows = "numbers.html.jinja", number_context(scored), len(scored.rows)
    elif any(row.heading for row in scored):
        template, context, rows = "questions.html.jinja", question_context(scored), len(scored)
    else:
        template, context, rows = "entities.html.jinja", entity_context(scored), len(scored)
    boxes = [(named(name, 60), format_metric(value), "") for name, value in metrics.items()]
    write_page(path, render(template, heading=cut(title, 200), examples=rows, remark=remark, metrics=boxes, **context))


def label_context(scored: ScoredLabels) -> dict[str, Any]:
    """Returns the variables of `labels.html.jinja`."""
    metrics = LabelMetrics(scored)
    labels, confusion, scores = metrics.labels, metrics.confusion, metrics.scores()
    mistakes = list(metrics.mistakes())
    right, total = int(np.trace(confusion)), int(confusion.sum())
    is_drawn = len(labels) > _MOST_IN_NUMBERS
    return {
        "labels": labels,
        "beside": len(labels) <= _MOST_BESIDE,
        "correct": f"{right:,} of {total:,} correct ({percent(right, total)})",
        "confusion": confusion.tolist(),
        "heat": heat_chart(*_most_frequent(labels, confusion)) if is_drawn else None,
        "confused": metrics.confused()[:_MOST_CONFUSED] if is_drawn else [],
        "calibration": _calibration(metrics.calibration(), 0.5 if len(scored.labels) == 2 else 0.0),
        "all_labels": len(scores) if len(scores) > _MOST_LISTED else 0,
        "scores": scores if len(scores) <= _MOST_LISTED else sorted(scores, key=lambda one: -one.gold)[:_MOST_LISTED],
        "worst": worst(mistakes, lambda mistake: mistake.predicted_probability),
        "all_errors": len(mistakes) if len(mistakes) > SHOWN_WORST else 0,
    }


def _most_frequent(labels: Sequence[str], counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Returns labels and counts; if there are too many labels to draw, the rarest are merged."""
    if len(labels) <= _MOST_DRAWN:
        return list(labels), counts
    frequency = counts.sum(axis=0) + counts.sum(axis=1)
    kept = np.sort(np.argsort(-frequency, kind="stable")[: _MOST_DRAWN - 1])
    group = np.full(len(labels), len(kept))
    group[kept] = np.arange(len(kept))
    grouped = np.zeros((len(kept) + 1, len(kept) + 1), np.int64)
    np.add.at(grouped, (group[:, None], group[None]), counts)
    return [*(labels[number] for number in kept), _OTHERS], grouped


def _calibration(calibration: Calibration, lowest: float) -> tuple[str, Chart]:
    """Returns the note on a calibration and its chart."""
    off = calibration.overconfidence
    side = "overconfident" if off > 0 else "underconfident"
    note = (
        f"Expected calibration error {calibration.error:.3f}: the mean difference between the probability of the "
        f"predicted label and the accuracy. Overall the model is {abs(off):.1%} {side}. Dots on the dashed line are "
        "perfectly calibrated; the bars show the number of predictions per dot."
    )
    columns = (calibration.counts, calibration.confidence, calibration.accuracy)
    bins = list(zip(*(column.tolist() for column in columns), strict=True))
    return note, reliability_chart(bins, lowest, f"Expected calibration error {calibration.error:.3f}.")


def number_context(scored: ScoredNumbers) -> dict[str, Any]:
    """Returns the variables of `numbers.html.jinja`; predictions that are not finite are worst and not drawn."""
    gold = np.array([row.gold for row in scored.rows], np.float64)
    predicted = np.array([row.predicted for row in scored.rows], np.float64)
    kept = np.isfinite(gold) & np.isfinite(predicted)
    finite = [value for value in (*gold, *predicted) if math.isfinite(value)]
    chosen = worst([row for row in scored.rows if row.gold != row.predicted], _distance)
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    return {
        "drawn": MOST_DOTS if kept.sum() > MOST_DOTS else 0,
        "scatter": scatter_chart(gold[kept], predicted[kept]),
        "residuals": _residuals((predicted - gold)[kept]),
        "low": low,
        "high": high,
        "worst": [(row, _places(row, low, high)) for row in chosen],
    }


def _residuals(differences: np.ndarray) -> tuple[str, Chart | str]:
    """Returns a note on predicted minus true values and their histogram."""
    if not len(differences):
        return "No finite predictions.", ""
    # The range is symmetric, so that too high and too low values are easy to tell apart.
    reach = float(np.abs(differences).max()) or 1.0
    counts, edges = np.histogram(differences, _BINS, (-reach, reach))
    columns = zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
    bars = [Bar(count, f"{begin:+.3g} to {end:+.3g}") for count, begin, end in columns]
    mean, middle = float(differences.mean()), float(np.median(np.abs(differences)))
    side = "too high" if mean > 0 else "too low"
    note = f"On average {abs(mean):.3g} {side}; half of the predictions are within {middle:.3g} of the true value."
    ticks = [(_BINS * part / 4, f"{-reach + reach * part / 2:+.3g}" if part != 2 else "0") for part in range(5)]
    return note, column_chart("Residuals", note, bars, ticks)


def _distance(row: ScoredNumber) -> float:
    distance = abs(row.predicted - row.gold)
    return distance if math.isfinite(distance) else math.inf


def _places(row: ScoredNumber, low: float, high: float) -> Sequence[float]:
    """Returns the places of the true and the predicted value in [0, 1], empty if there is no scale for them."""
    if not math.isfinite(_distance(row)) or low == high:
        return ()
    return tuple((value - low) / (high - low) for value in (row.gold, row.predicted))
