"""Report on a regression: predicted over true values, residuals, worst errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from bert_tf.reports.charts import Bar, column_chart
from bert_tf.reports.data.facts import plural
from bert_tf.reports.html import element
from bert_tf.reports.parts import bounded, chart_card
from bert_tf.reports.tasks.charts import MOST_DOTS, scatter_chart
from bert_tf.reports.tasks.labels import shown_texts
from bert_tf.reports.tasks.sampling import worst
from bert_tf.reports.tasks.scored import ScoredNumber, ScoredNumbers
from bert_tf.reports.text import cut

_BINS = 24


def number_sections(scored: ScoredNumbers) -> Iterator[Element]:
    """Yields the sections on predicted numbers; non-finite predictions are the worst errors and are not drawn."""
    gold = np.array([row.gold for row in scored.rows], np.float64)
    predicted = np.array([row.predicted for row in scored.rows], np.float64)
    kept = np.isfinite(gold) & np.isfinite(predicted)
    yield element("h2", "Predicted and true values")
    yield element("div", _scatter(gold[kept], predicted[kept]), _residuals((predicted - gold)[kept]), class_="pair")
    yield from _errors(scored.rows, gold, predicted)


def _scatter(gold: np.ndarray, predicted: np.ndarray) -> Element:
    some = f" {MOST_DOTS:,} of them are drawn." if len(gold) > MOST_DOTS else ""
    note = f"Horizontal axis: true value. Vertical axis: predicted value. Both are equal on the dashed line.{some}"
    return chart_card("Predicted over true values", note, scatter_chart(gold, predicted))


def _residuals(differences: np.ndarray) -> Element:
    if not len(differences):
        return chart_card("Residuals", "No finite predictions.", element("svg", class_="chart"))
    # The range is symmetric, so that too high and too low values are easy to tell apart.
    reach = float(np.abs(differences).max()) or 1.0
    counts, edges = np.histogram(differences, _BINS, (-reach, reach))
    bars = [
        Bar(int(count), f"{begin:+.3g} to {end:+.3g}")
        for count, begin, end in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    mean, middle = float(differences.mean()), float(np.median(np.abs(differences)))
    side = "too high" if mean > 0 else "too low"
    note = f"On average {abs(mean):.3g} {side}; half of the predictions are within {middle:.3g} of the true value."
    ticks = [(_BINS * part / 4, f"{-reach + reach * part / 2:+.3g}" if part != 2 else "0") for part in range(5)]
    return chart_card("Residuals", note, column_chart("Residuals", note, bars, ticks))


def _errors(rows: Sequence[ScoredNumber], gold: np.ndarray, predicted: np.ndarray) -> Iterator[Element]:
    both = np.concatenate([gold, predicted])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    chosen = worst([row for row in rows if row.gold != row.predicted], _distance)
    yield element("h2", f"The worst {plural(len(chosen), 'error')}" if len(chosen) > 1 else "Errors")
    yield element(
        "p",
        f"Largest differences first. Lines span {low:.4g} to {high:.4g}; ring: true value, square: prediction.",
        class_="note",
    )
    yield from bounded(chosen, lambda number, row: _error(number, row, low, high))


def _error(number: int, row: ScoredNumber, low: float, high: float) -> Element:
    header = element("header", element("b", f"{number}"), element("span", _in_words(row)),
                     element("bdi", cut(row.place, 120), class_="mono"))  # fmt: skip
    return element("article", header, *shown_texts(row.texts), *_scale(row, low, high), class_="card answer")


def _distance(row: ScoredNumber) -> float:
    distance = abs(row.predicted - row.gold)
    return distance if np.isfinite(distance) else np.inf


def _in_words(row: ScoredNumber) -> str:
    return f"predicted {row.predicted:.4g}, true {row.gold:.4g}: {row.predicted - row.gold:+.3g}"


def _scale(row: ScoredNumber, low: float, high: float) -> Iterator[Element]:
    """Yields both numbers on a scale, or nothing if one of them is not finite."""
    if not np.isfinite(_distance(row)) or low == high:
        return
    gold, predicted = ((value - low) / (high - low) for value in (row.gold, row.predicted))
    yield element(
        "div",
        element("u", style=f"left:{min(gold, predicted):.1%};width:{abs(gold - predicted):.1%}"),
        element("i", style=f"left:{gold:.1%}"),
        element("i", style=f"left:{predicted:.1%}", class_="off"),
        class_="scale",
        aria_hidden="true",
    )
