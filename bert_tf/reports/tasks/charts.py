"""Charts of predictions as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np

from bert_tf.reports.charts import WIDTH, px, svg_chart, svg_text
from bert_tf.reports.curves import axis_of
from bert_tf.reports.data.facts import percent
from bert_tf.reports.html import element
from bert_tf.reports.tasks.label_metrics import Calibration
from bert_tf.reports.text import cut

_LEFT, _RIGHT, _TOP = 44.0, 10.0, 12.0
# Differences between probability and accuracy above this are highlighted.
_FAR = 0.1
# Maximum dots of a scatter plot: more dots overlap and make the page large.
MOST_DOTS = 2000


def reliability_chart(calibration: Calibration, lowest: float) -> Element:
    """Draws a reliability diagram: accuracy over predicted probability, and a histogram of the bins below.

    Args:
        calibration: calibration to draw.
        lowest: lower end of both axes, in [0, 1).

    Returns:
        The `svg` element.
    """
    wide, tall, strip = WIDTH - _LEFT - _RIGHT, 230.0, 46.0
    floor = _TOP + tall
    bins = len(calibration.counts)

    def at(share: float) -> float:
        return (share - lowest) / (1 - lowest)

    parts = []
    for tick in (lowest, (1 + lowest) / 2, 1.0):
        x, y = _LEFT + wide * at(tick), floor - tall * at(tick)
        parts += [_line("grid", _LEFT, WIDTH - _RIGHT, y, y), svg_text(f"{tick:.0%}", _LEFT - 6, y + 4, "end")]
        parts.append(svg_text(f"{tick:.0%}", x, floor + 18, "end" if tick == 1 else "middle"))
    parts.append(_line("ideal", _LEFT, WIDTH - _RIGHT, floor, _TOP))
    most = max(int(calibration.counts.max(initial=0)), 1)
    for number in np.flatnonzero(calibration.counts).tolist():
        count, accuracy = int(calibration.counts[number]), float(calibration.accuracy[number])
        confidence = float(calibration.confidence[number])
        left = _LEFT + wide * at(max(number / bins, lowest))
        step = _LEFT + wide * at((number + 1) / bins) - left
        height = strip * count / most
        words = f"{count:,} with mean probability {confidence:.1%}: {accuracy:.1%} correct"
        x, y = _LEFT + wide * at(confidence), floor - tall * max(at(accuracy), 0.0)
        parts += [
            element("line", class_="gap", x1=px(x), x2=px(x), y1=px(y), y2=px(floor - tall * at(confidence))),
            element("circle", element("title", words), class_=_dot(confidence - accuracy), cx=px(x), cy=px(y), r="6"),
            element("rect", element("title", words), class_="bar", x=px(left + 1), width=px(step - 2), rx="2",
                    y=px(floor + 34 + strip - height), height=px(height)),
            svg_text(f"{count:,}", left + step / 2, floor + 48 + strip, "middle"),
        ]  # fmt: skip
    description = f"Expected calibration error {calibration.error:.3f}."
    return svg_chart("Accuracy by predicted probability", description, floor + strip + 54, parts)


def heat_chart(labels: Sequence[str], counts: np.ndarray) -> Element:
    """Draws a confusion matrix of many labels: rows are true labels, columns are predicted labels."""
    size = len(labels)
    left, top = 96.0, 96.0
    side = (WIDTH - left - 4) / size
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    parts = [element("rect", class_="plane", x=px(left), y=px(top), width=px(side * size), height=px(side * size))]
    for gold, predicted in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
        words = f"{cut(labels[gold], 40)} predicted as {cut(labels[predicted], 40)}: {counts[gold, predicted]:,}"
        if gold == predicted:
            words = f"{cut(labels[gold], 40)}: {counts[gold, predicted]:,} correct"
        cell = element("rect", element("title", f"{words} ({shares[gold, predicted]:.1%})"),
                       class_="cell same" if gold == predicted else "cell", x=f"{left + side * predicted:.2f}",
                       y=f"{top + side * gold:.2f}", width=f"{side * 0.92:.2f}", height=f"{side * 0.92:.2f}",
                       opacity=f"{0.15 + 0.85 * shares[gold, predicted]:.2f}")  # fmt: skip
        parts.append(cell)
    for number, label in enumerate(labels):
        middle = side * (number + 0.5)
        name = cut(label, 18)
        parts.append(svg_text(name, left - 4, top + middle + 2.5, "end", "name"))
        upright = svg_text(name, 0, 0, "start", "name")
        upright.set("transform", f"translate({px(left + middle + 2.5)} {px(top - 4)}) rotate(-90)")
        parts.append(upright)
    right, total = int(np.trace(counts)), int(counts.sum())
    description = f"{size} labels; {right:,} of {total:,} on the diagonal."
    return svg_chart("True labels by predicted labels", description, top + side * size + 4, parts)


def scatter_chart(gold: np.ndarray, predicted: np.ndarray) -> Element:
    """Draws predicted over true values, both float64 (N,) and finite, with the diagonal."""
    low, high, ticks = axis_of([*gold.tolist(), *predicted.tolist()])
    margin = 0.02 * (high - low)
    low, high = low - margin, high + margin
    wide, tall = WIDTH - _LEFT - _RIGHT, 330.0

    def at(value: float) -> float:
        return (value - low) / (high - low)

    floor = _TOP + tall
    parts = []
    for value in ticks:
        x, y = _LEFT + wide * at(value), floor - tall * at(value)
        parts += [_line("grid", _LEFT, WIDTH - _RIGHT, y, y), svg_text(f"{value:.3g}", _LEFT - 6, y + 4, "end")]
        parts.append(svg_text(f"{value:.3g}", x, floor + 18, "middle"))
    parts.append(_line("ideal", _LEFT, WIDTH - _RIGHT, floor, _TOP))
    kept = np.unique(np.linspace(0, max(len(gold) - 1, 0), min(MOST_DOTS, len(gold))).round().astype(np.int64))
    for x, y in zip(gold[kept].tolist(), predicted[kept].tolist(), strict=True):
        words = element("title", f"true {x:.4g}, predicted {y:.4g}")
        parts.append(element("circle", words, class_="dot cloud", cx=px(_LEFT + wide * at(x)),
                             cy=px(floor - tall * at(y)), r="3"))  # fmt: skip
    return svg_chart("Predicted over true values", f"{len(gold):,} examples.", floor + 24, parts)


def stacked_chart(title: str, fates: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]]) -> Element:
    """Draws a stacked bar chart, one bar per row.

    Args:
        title: accessible title of the chart.
        fates: names and CSS classes of the parts.
        rows: name and counts of the parts for each row.

    Returns:
        The `svg` element.
    """
    step, left, right = 34.0, 118.0, 54.0
    room = WIDTH - left - right
    parts = []
    for number, (name, counts) in enumerate(rows):
        y, x, total = 6 + number * step, left, sum(counts)
        parts.append(svg_text(cut(name, 16), left - 10, y + 15, "end", "name"))
        for fate, count in zip(fates, counts, strict=True):
            width = room * count / max(total, 1)
            words = f"{cut(name, 40)}: {count:,} {fate} ({percent(count, total)})"
            if count:
                parts.append(element("rect", element("title", words), class_=f"fate-{fate}", x=px(x), y=px(y),
                                     width=px(max(width - 1, 0.6)), height="20"))  # fmt: skip
            x += width
        parts.append(svg_text(f"{total:,}", WIDTH - right + 8, y + 15, "start", "value"))
    sums = (f"{sum(counts[place] for _, counts in rows):,} {fate}" for place, fate in enumerate(fates))
    return svg_chart(title, f"{'; '.join(sums)}.", 6 + step * len(rows), parts)


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> Element:
    return element("line", class_=kind, x1=px(x1), x2=px(x2), y1=px(y1), y2=px(y2))


def _dot(distance: float) -> str:
    return "dot far" if abs(distance) > _FAR else "dot"
