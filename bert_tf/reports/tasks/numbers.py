"""Sections on a regression: predicted over true values, residuals, worst errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.reports.charts import MOST_DOTS, Bar, Chart, column_chart, scatter_chart
from bert_tf.reports.tasks.scored import ScoredNumber, ScoredNumbers
from bert_tf.reports.text import worst

_BINS = 24


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
