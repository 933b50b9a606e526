"""The page of a classification: confusion matrix, calibration, figures by label, the worst errors."""

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
from bert_tf.reports.text import NOTHING, WHOLE, cut, named
from bert_tf.tasks.scored import ScoredLabels

# A matrix of more labels is drawn without numbers; of still more, the rarest are taken together.
_MOST_IN_NUMBERS, _MOST_DRAWN, _MOST_LISTED = 12, 60, 300
# Of so many labels the matrix and the calibration have room beside each other.
_MOST_BESIDE = 3
_MOST_CONFUSED = 15
_MATRIX = "Right labels by labels given"
_OTHERS = "all others"
# Of several texts each is cut to its part of this, but shows as much as _LEAST.
_TEXTS, _LEAST = 2 * WHOLE, 240
_MOST_TEXTS = 8


def label_sections(scored: ScoredLabels) -> Iterator[Element]:
    """Yields what is to be said of labels."""
    figures = LabelFigures(scored)
    calibration = _calibration(figures.calibration(), 0.5 if len(scored.labels) == 2 else 0.0)
    yield element("h2", "What was taken for what, and how surely")
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
    words = f"{right:,} of {total:,} right ({percent(right, total)}). A line is a right label, a column a label given"
    if len(figures.labels) <= _MOST_IN_NUMBERS:
        table = element("div", _number_matrix(figures.labels, figures.confusion), class_="scroll")
        yield chart_card(_MATRIX, f"{words}; shares are those of the line.", table, "wide")
        return
    labels, counts = _most_frequent(figures.labels, figures.confusion)
    note = f"{words}; the stronger the colour, the larger the share of the line."
    yield chart_card(_MATRIX, note, heat_chart(labels, counts), "wide heat")
    pairs = figures.confused()
    if pairs:
        yield element("h3", "Most often confused", class_="wide")
        rows = (
            (name_of(gold), name_of(given), f"{count:,}", percent(share))
            for gold, given, count, share in pairs[:_MOST_CONFUSED]
        )
        yield compact_table((("Right", ""), ("Given", ""), ("Times", "n"), ("Share", "n")), rows)


def _number_matrix(labels: Sequence[str], counts: np.ndarray) -> Element:
    totals = counts.sum(axis=1)
    kind = "name upright" if len(labels) > 4 and max(map(len, labels)) > 3 else "name"
    heads = (element("th", element("bdi", named(label, 24), class_=kind), scope="col") for label in labels)
    corner = element("th", element("span", "right ↓  given →", class_="side"))
    lines = (
        element(
            "tr",
            element("th", element("bdi", named(label, 40), class_="name"), scope="row"),
            *(_cell(labels, counts, totals, gold, given) for given in range(len(labels))),
        )
        for gold, label in enumerate(labels)
    )
    return element(
        "table",
        element("thead", element("tr", corner, *heads)),
        element("tbody", *lines),
        class_="matrix few" if len(labels) <= _MOST_BESIDE else "matrix",
    )


def _cell(labels: Sequence[str], counts: np.ndarray, totals: np.ndarray, gold: int, given: int) -> Element:
    count = int(counts[gold, given])
    share = count / max(int(totals[gold]), 1)
    kind = "same" if gold == given else "" if count else "none"
    words = f"right {cut(labels[gold], 40)}, given {cut(labels[given], 40)}"
    return element("td", element("b", f"{count:,}"), element("span", percent(share, digits=0)), class_=kind,
                   style=f"--share:{share:.3f}", title=words)  # fmt: skip


def _most_frequent(labels: Sequence[str], counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Returns labels and counts, the rarest labels as one where there are too many to draw."""
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
    side = "surer than right" if off > 0 else "less sure than right"
    note = (
        f"Expected calibration error {calibration.error:.3f}: what the probability of the label given and the share "
        f"that is right differ by, on average. All in all the model is {abs(off):.1%} {side}. Dots on the dashed line "
        "would be as right as they say; below, how many answers each stands for."
    )
    return chart_card("Share right by the probability given", note, reliability_chart(calibration, lowest))


def _by_label(scores: Sequence[Scores]) -> Iterator[Element]:
    if len(scores) > _MOST_LISTED:
        yield element("p", f"The {_MOST_LISTED} most frequent of {len(scores):,} labels.", class_="note")
        scores = sorted(scores, key=lambda one: -one.gold)[:_MOST_LISTED]
    yield scores_table(("Label", "Examples", "Given"), scores)


def scores_table(names: tuple[str, str, str], scores: Sequence[Scores]) -> Element:
    """Returns precision, recall and F1; `names` are those of the first column and of the two with counts."""
    what, right, given = names
    columns = ((what, ""), ("Precision", "n"), ("Recall", "n"), ("F1", "n"), (right, "n"), (given, "n"))
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
        yield element("p", f"None of {total:,} answers is wrong.", class_="note")
        return
    of_all = f" of {len(mistakes):,}" if len(mistakes) > SHOWN_WORST else ""
    yield element(
        "p", f"Those{of_all} that the model was surest of come first. A label that is wrong is dashed.", class_="note"
    )
    yield from bounded(chosen, _error)


def _error(number: int, mistake: Mistake) -> Element:
    header = element("header", element("b", f"{number}"), element("bdi", cut(mistake.row.place, 120), class_="mono"))
    said = element(
        "dl",
        *_lane("said", mistake.predicted, mistake.predicted_probability, "lane off"),
        *_lane("right", mistake.row.gold, mistake.gold_probability, "lane"),
        class_="said",
    )
    return element("article", header, *shown_texts(mistake.row.texts), said, class_="card answer")


def _lane(what: str, label: str, probability: float, kind: str) -> Iterator[Element]:
    bar = element("i", style=f"width:{min(max(probability, 0), 1):.1%}", aria_hidden="true")
    yield element("dt", what)
    yield element("dd", bar, element("bdi", named(label, 120)), class_=kind)
    yield element("dd", f"{probability:.1%}", class_="n")


def shown_texts(texts: Sequence[tuple[str, str]]) -> Iterator[Element]:
    """Yields what was read, cut."""
    most = max(_LEAST, _TEXTS // max(len(texts), 1))
    for name, text in texts[:_MOST_TEXTS]:
        label: list[Content] = [element("span", cut(name, 40), class_="what")] if len(texts) > 1 else []
        yield element("p", *label, element("bdi", cut(text, most) or NOTHING), class_="read", dir="auto")
    if len(texts) > _MOST_TEXTS:
        yield element("p", f"and {plural(len(texts) - _MOST_TEXTS, 'more text')}", class_="note")
