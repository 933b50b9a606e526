"""Report on a classification: confusion matrix, calibration, metrics by label, worst errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from bert_tf.reports.data.facts import percent, plural
from bert_tf.reports.html import Content, element
from bert_tf.reports.parts import bounded, chart_card, compact_table, name_of
from bert_tf.reports.tasks.charts import heat_chart, reliability_chart
from bert_tf.reports.tasks.label_metrics import Calibration, LabelFigures, Mistake, Scores
from bert_tf.reports.tasks.sampling import SHOWN_WORST, worst
from bert_tf.reports.tasks.scored import ScoredLabels
from bert_tf.reports.text import NOTHING, WHOLE, cut, named

# Maximum labels of a matrix with numbers, of a matrix as a chart (rarer labels are merged), and of the table of scores.
_MOST_IN_NUMBERS, _MOST_DRAWN, _MOST_LISTED = 12, 60, 300
# Up to this many labels, the matrix and the calibration are placed side by side.
_MOST_BESIDE = 3
_MOST_CONFUSED = 15
_MATRIX = "True labels by predicted labels"
_OTHERS = "all others"
# Texts of one example share _TEXTS characters; each is cut to its part, but not below _LEAST.
_TEXTS, _LEAST = 2 * WHOLE, 240
_MOST_TEXTS = 8


def label_sections(scored: ScoredLabels) -> Iterator[Element]:
    """Yields the sections on predicted labels."""
    figures = LabelFigures(scored)
    calibration = _calibration(figures.calibration(), 0.5 if len(scored.labels) == 2 else 0.0)
    yield element("h2", "Confusion matrix and calibration")
    matrix = list(_matrix(figures))
    if len(figures.labels) <= _MOST_BESIDE:
        yield element("div", *matrix, calibration, class_="pair")
    else:
        yield from matrix
        calibration.set("class", "card wide narrow")
        yield calibration
    yield element("h2", "By label")
    yield from _by_label(figures.scores())
    yield from _errors(list(figures.mistakes()), len(scored.rows))


def _matrix(figures: LabelFigures) -> Iterator[Element]:
    right, total = int(np.trace(figures.confusion)), int(figures.confusion.sum())
    words = f"{right:,} of {total:,} correct ({percent(right, total)}). Rows are true labels, columns predicted labels"
    if len(figures.labels) <= _MOST_IN_NUMBERS:
        table = element("div", _number_matrix(figures.labels, figures.confusion), class_="scroll")
        yield chart_card(_MATRIX, f"{words}; shares are relative to the row.", table, "wide")
        return
    labels, counts = _most_frequent(figures.labels, figures.confusion)
    note = f"{words}; stronger colours mean larger shares of the row."
    yield chart_card(_MATRIX, note, heat_chart(labels, counts), "wide heat")
    pairs = figures.confused()
    if pairs:
        yield element("h3", "Most often confused", class_="wide")
        rows = (
            (name_of(gold), name_of(predicted), f"{count:,}", percent(share))
            for gold, predicted, count, share in pairs[:_MOST_CONFUSED]
        )
        yield compact_table((("True", ""), ("Predicted", ""), ("Count", "n"), ("Share", "n")), rows)


def _number_matrix(labels: Sequence[str], counts: np.ndarray) -> Element:
    totals = counts.sum(axis=1)
    kind = "name upright" if len(labels) > 4 and max(map(len, labels)) > 3 else "name"
    heads = (element("th", element("bdi", named(label, 24), class_=kind), scope="col") for label in labels)
    corner = element("th", element("span", "true ↓  predicted →", class_="side"))
    lines = (
        element(
            "tr",
            element("th", element("bdi", named(label, 40), class_="name"), scope="row"),
            *(_cell(labels, counts, totals, gold, predicted) for predicted in range(len(labels))),
        )
        for gold, label in enumerate(labels)
    )
    return element(
        "table",
        element("thead", element("tr", corner, *heads)),
        element("tbody", *lines),
        class_="matrix few" if len(labels) <= _MOST_BESIDE else "matrix",
    )


def _cell(labels: Sequence[str], counts: np.ndarray, totals: np.ndarray, gold: int, predicted: int) -> Element:
    count = int(counts[gold, predicted])
    share = count / max(int(totals[gold]), 1)
    kind = "same" if gold == predicted else "" if count else "none"
    words = f"true {cut(labels[gold], 40)}, predicted {cut(labels[predicted], 40)}"
    return element("td", element("b", f"{count:,}"), element("span", percent(share, digits=0)), class_=kind,
                   style=f"--share:{share:.3f}", title=words)  # fmt: skip


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


def _calibration(calibration: Calibration, lowest: float) -> Element:
    off = calibration.overconfidence
    side = "overconfident" if off > 0 else "underconfident"
    note = (
        f"Expected calibration error {calibration.error:.3f}: the mean difference between the probability of the "
        f"predicted label and the accuracy. Overall the model is {abs(off):.1%} {side}. Dots on the dashed line are "
        "perfectly calibrated; the bars show the number of predictions per dot."
    )
    return chart_card("Accuracy by predicted probability", note, reliability_chart(calibration, lowest))


def _by_label(scores: Sequence[Scores]) -> Iterator[Element]:
    if len(scores) > _MOST_LISTED:
        yield element("p", f"The {_MOST_LISTED} most frequent of {len(scores):,} labels.", class_="note")
        scores = sorted(scores, key=lambda one: -one.gold)[:_MOST_LISTED]
    yield scores_table(("Label", "Examples", "Predicted"), scores)


def scores_table(names: tuple[str, str, str], scores: Sequence[Scores]) -> Element:
    """Renders precision, recall and F1; `names` are the headings of the first column and of the two count columns."""
    first, gold, predicted = names
    columns = ((first, ""), ("Precision", "n"), ("Recall", "n"), ("F1", "n"), (gold, "n"), (predicted, "n"))
    rows = (
        (name_of(one.label), f"{one.precision:.1%}", f"{one.recall:.1%}", f"{one.f1:.1%}", f"{one.gold:,}",
         f"{one.predicted:,}")
        for one in scores
    )  # fmt: skip
    return compact_table(columns, rows)


def _errors(mistakes: Sequence[Mistake], total: int) -> Iterator[Element]:
    chosen = worst(mistakes, lambda mistake: mistake.predicted_probability)
    yield element("h2", f"The worst {plural(len(chosen), 'error')}" if len(chosen) > 1 else "Errors")
    if not chosen:
        yield element("p", f"All {total:,} predictions are correct.", class_="note")
        return
    of_all = f" of {len(mistakes):,}" if len(mistakes) > SHOWN_WORST else ""
    yield element("p", f"The most confident errors{of_all} come first. The wrong label is dashed.", class_="note")
    yield from bounded(chosen, _error)


def _error(number: int, mistake: Mistake) -> Element:
    header = element("header", element("b", f"{number}"), element("bdi", cut(mistake.row.place, 120), class_="mono"))
    lanes = element(
        "dl",
        *_lane("predicted", mistake.predicted, mistake.predicted_probability, "lane off"),
        *_lane("true", mistake.row.gold, mistake.gold_probability, "lane"),
        class_="said",
    )
    return element("article", header, *shown_texts(mistake.row.texts), lanes, class_="card answer")


def _lane(what: str, label: str, probability: float, kind: str) -> Iterator[Element]:
    bar = element("i", style=f"width:{min(max(probability, 0), 1):.1%}", aria_hidden="true")
    yield element("dt", what)
    yield element("dd", bar, element("bdi", named(label, 120)), class_=kind)
    yield element("dd", f"{probability:.1%}", class_="n")


def shown_texts(texts: Sequence[tuple[str, str]]) -> Iterator[Element]:
    """Yields the texts of an example, cut to a maximum length."""
    most = max(_LEAST, _TEXTS // max(len(texts), 1))
    for name, text in texts[:_MOST_TEXTS]:
        label: list[Content] = [element("span", cut(name, 40), class_="what")] if len(texts) > 1 else []
        yield element("p", *label, element("bdi", cut(text, most) or NOTHING), class_="read", dir="auto")
    if len(texts) > _MOST_TEXTS:
        yield element("p", f"and {plural(len(texts) - _MOST_TEXTS, 'more text')}", class_="note")
