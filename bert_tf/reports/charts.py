"""Charts as inline SVG, each with a title, a description, and values as tooltips.

Notebooks display a chart that is the result of a cell, with its title and on a background of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from bert_tf.reports.page import asset
from bert_tf.reports.text import cut, percent

# In units of the view box; the page scales it to the available width.
WIDTH = 480.0
# Maximum dots of a scatter plot: more dots overlap and make the page large.
MOST_DOTS = 2000
# A bar this many times as high as the second highest is cut, so that the other bars stay visible.
_CUT = 4.0
_TICKS = 4
# Height of a row of a strip chart, and the space above the first.
_STRIP, _STRIP_TOP = 40.0, 8.0
# Differences between probability and accuracy above this are highlighted.
_FAR = 0.1
# A matrix with more columns has no numbers in its cells.
_MOST_NUMBERS = 12
# Colors of the palette for groups of points.
_GROUPS = 8
# Width of a chart that stands alone, in pixels; the space around it, and above it for the title.
_PIXELS = 640.0
_MARGIN, _HEAD = 20.0, 44.0
_FONT = "font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


@dataclass(frozen=True)
class Scale:
    """Linear scale from the values `low` to `high` to the coordinates `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Returns the coordinate of a value."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


class Chart(Element):
    """SVG chart of full page width, `height` in units of `WIDTH`; templates write it as it stands."""

    def __init__(self, title: str, description: str, height: float) -> None:
        view, label = f"0 0 {WIDTH:g} {height:g}", f"{title}. {description}"
        super().__init__("svg", {"role": "img", "class": "chart", "viewBox": view, "aria-label": label})
        SubElement(self, "title").text = title
        SubElement(self, "desc").text = description

    def __html__(self) -> str:
        """Returns the markup; all texts are escaped."""
        return tostring(self, "unicode", short_empty_elements=False)

    def __repr__(self) -> str:
        """Returns the title."""
        return f"{type(self).__name__}({self.findtext('title')!r})"

    def _repr_svg_(self) -> str:
        """Returns the chart as a file: with title, background and style; notebooks call this method."""
        width, height = (float(number) for number in self.attrib["viewBox"].split()[2:])
        size = (width + 2 * _MARGIN, height + _HEAD + _MARGIN)
        whole = copy(self)
        whole.attrib = self.attrib | {
            "xmlns": "http://www.w3.org/2000/svg", "style": _FONT,
            "viewBox": f"{-_MARGIN:g} {-_HEAD:g} {size[0]:g} {size[1]:g}",
            "width": f"{_PIXELS:g}", "height": f"{_PIXELS * size[1] / size[0]:.0f}",
        }  # fmt: skip
        head = Chart("", "", 0.0)
        SubElement(head, "style").text = f"\n{asset('palette.css')}{asset('chart.css')}"
        head.bar("sheet", (0.5 - _MARGIN, 0.5 - _HEAD), (size[0] - 1, size[1] - 1), rx=10)
        head.label(self.findtext("title", ""), 0, 22 - _HEAD, "start", "title")
        whole[:0] = head[2:]
        return tostring(whole, "unicode", short_empty_elements=False)

    def mark(self, tag: str, kind: str, tip: str = "", **attributes: float | str) -> Element:
        """Adds a shape with a CSS class and a tooltip; underscores in names of attributes become hyphens."""
        values = {name.replace("_", "-"): v if isinstance(v, str) else _px(v) for name, v in attributes.items()}
        shape = SubElement(self, tag, {"class": kind, **values})
        if tip:
            SubElement(shape, "title").text = tip
        return shape

    def line(self, kind: str, x: tuple[float, float], y: tuple[float, float], tip: str = "") -> None:
        """Adds a line between the points (x[0], y[0]) and (x[1], y[1])."""
        self.mark("line", kind, tip, x1=x[0], x2=x[1], y1=y[0], y2=y[1])

    def bar(
        self, kind: str, corner: tuple[float, float], size: tuple[float, float], tip: str = "", rx: float = 4
    ) -> None:
        """Adds a rectangle; `corner` is its upper left corner, `rx` the radius of its corners."""
        self.mark("rect", kind, tip, x=corner[0], y=corner[1], width=size[0], height=size[1], rx=rx)

    def dot(self, kind: str, x: float, y: float, radius: float, tip: str = "") -> None:
        """Adds a circle."""
        self.mark("circle", kind, tip, cx=x, cy=y, r=radius)

    def label(self, text: str, x: float, y: float, anchor: str = "middle", kind: str = "tick") -> Element:
        """Adds a text; `anchor` is `start`, `middle` or `end`."""
        element = self.mark("text", kind, x=x, y=y, text_anchor=anchor)
        element.text = text
        return element

    def rows(self, y: Scale, ticks: Sequence[float], form: Callable[[float], str], x: Scale) -> None:
        """Adds a horizontal grid line with a label on its left at every tick."""
        for tick in ticks:
            self.line("grid", (x.start, x.end), (y(tick), y(tick)))
            self.label(form(tick), x.start - 6, y(tick) + 4, "end")


@dataclass(frozen=True)
class Bar:
    """One bar of a column chart: its height and its label."""

    value: int
    label: str


def column_chart(title: str, description: str, bars: Sequence[Bar], ticks: Sequence[tuple[float, str]]) -> Chart:
    """Draws a histogram; ticks have a position (in bars from the left edge) and a label."""
    total = sum(bar.value for bar in bars)
    highest, second = sorted((0, *(bar.value for bar in bars)), reverse=True)[:2]
    is_cut = len(bars) > 1 and highest > _CUT * max(second, 1)
    top = 1.6 * second if is_cut and second else highest
    chart = Chart(title, description, 190)
    x, y = Scale(0, len(bars), 44, WIDTH - 6), Scale(0, max(top, 1), 164, 22)
    full = second if is_cut else top
    chart.rows(y, [0.5 * full, full] if highest else [], lambda value: percent(value, total), x)
    step = x(1) - x(0)
    gap = min(2.0, step * 0.15)
    for number, bar in enumerate(bars):
        left, height = x(number) + gap / 2, y(0) - y(min(bar.value, top))
        tip = f"{bar.label}: {bar.value:,} ({percent(bar.value, total)})"
        chart.bar("bar", (left, y(0) - height), (step - gap, height), tip, min(2.0, step / 4))
        if is_cut and bar.value == highest:
            slant = ((left - 1, 4), (left + step - gap + 1, -4), (left + step - gap + 1, 0), (left - 1, 8))
            middle = y.start + 0.82 * (y.end - y.start)
            chart.mark("polygon", "cut", points=" ".join(f"{_px(at)},{_px(middle + up)}" for at, up in slant))
            is_right = number > len(bars) / 2
            edge = x(number) + (step - gap if is_right else 0)
            chart.label(percent(bar.value, total), edge, 15, "end" if is_right else "start", "value")
    chart.line("axis", (x.start, x.end), (y(0), y(0)))
    for position, label in ticks:
        chart.label(label, x(position), 182, "end" if position > len(bars) - 1 else "middle")
    return chart


@dataclass(frozen=True)
class Row:
    """One horizontal bar.

    Each part has a CSS class, a share of the whole width and a tooltip. `value` is the label on the right; `expected`
    is the expected share, drawn as a line across the bar.
    """

    name: str
    parts: Sequence[tuple[str, float, str]]
    value: str
    expected: float | None = None


def row_chart(title: str, description: str, rows: Sequence[Row]) -> Chart:
    """Draws horizontal bars below one another."""
    chart = Chart(title, description, 6 + 34 * len(rows))
    x = Scale(0, 1, 118, WIDTH - 60)
    for number, row in enumerate(rows):
        y, begin = 6 + 34.0 * number, 0.0
        chart.label(row.name, x.start - 10, y + 15, "end", "name")
        chart.bar("track", (x.start, y), (x.end - x.start, 20))
        for kind, part, tip in row.parts:
            if part:
                chart.bar(kind, (x(begin), y), (max(x(part) - x.start - 1, 0.6), 20), tip, 2)
            begin += part
        if row.expected is not None:
            chart.line("expected", (x(row.expected), x(row.expected)), (y - 4, y + 24))
        chart.label(row.value, x.end + 10, y + 15, "start", "value")
    return chart


@dataclass(frozen=True)
class Series:
    """One curve: its name, which is also its CSS class, and (x, y) pairs from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Level:
    """A horizontal line across a chart; its name is also its CSS class."""

    name: str
    value: float


def line_chart(title: str, unit: str, series: Sequence[Series], form: str, levels: Sequence[Level] = ()) -> Chart:
    """Draws curves on common axes, with `levels` as horizontal lines; `unit` is that of the horizontal axis.

    The first curve is drawn as a line, others as dots on a thin line. Non-finite points are dropped. `form` is the
    format of a value, such as `{:.1%}`.
    """
    series = [Series(one.name, [(x, y) for x, y in one.points if math.isfinite(y)]) for one in series]
    low, high, ticks = axis_of([*(y for one in series for _, y in one.points), *(level.value for level in levels)])
    right = max((x for one in series for x, _ in one.points), default=0.0) or 1.0
    ends = [(one.name, one.points[-1][1]) for one in series if one.points]
    last = "; ".join(f"{name} {form.format(y)}" for name, y in [*ends, *((one.name, one.value) for one in levels)])
    chart = Chart(title, f"After {unit} {right:,.0f}: {last}.", 200)
    x, y = Scale(0, right, 62, WIDTH - 10), Scale(low, high, 172, 14)
    chart.rows(y, ticks, form.format, x)
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        chart.label(f"{right * part:,.0f}", x(right * part), 192, anchor)
    for level in levels:
        chart.line(f"level {level.name}", (x.start, x.end), (y(level.value), y(level.value)))
    for position, one in enumerate(series):
        points = " ".join(f"{_px(x(step))},{_px(y(value))}" for step, value in one.points)
        chart.mark("polyline", f"curve {one.name}", points=points)
        for step, value in one.points if position else ():
            tip = f"{one.name}, {unit} {step:,.0f}: {form.format(value)}"
            chart.dot(f"point {one.name}", x(step), y(value), 3, tip)
    for level in levels:
        # The label is above the line, or below it if there is no room or a curve ends there.
        at = y(level.value)
        is_taken = at < y.end + 12 or any(at - 18 < y(end) <= at + 2 for _, end in ends)
        words = f"{level.name} {form.format(level.value)}"
        chart.label(words, x.end, at + 14 if is_taken else at - 5, "end", "beside")
    return chart


def strip_chart(
    title: str, description: str, values: Sequence[float], names: Sequence[str]
) -> tuple[Chart, Scale, list[float]]:
    """Begins a chart of values on a common horizontal axis, with one row for each name.

    Returns the chart with axis and names, the scale of the axis, which spans all `values`, and the height of each row.
    """
    low, high, ticks = axis_of(values)
    floor = _STRIP_TOP + _STRIP * len(names)
    chart, x = Chart(title, cut(description, 2000), floor + 24), Scale(low, high, 16, WIDTH - 40)
    for tick in ticks:
        chart.line("grid", (x(tick), x(tick)), (_STRIP_TOP, floor))
        chart.label(f"{tick:.6g}", x(tick), floor + 18)
    heights = [_STRIP_TOP + _STRIP * number + 27 for number in range(len(names))]
    for name, y in zip(names, heights, strict=True):
        chart.label(cut(name, 80), x.start, y - 13, "start", "name beside")
    return chart, x, heights


def scatter_chart(gold: np.ndarray, predicted: np.ndarray) -> Chart:
    """Draws predicted over true values, both float64 (N,) and finite, with the diagonal."""
    low, high, ticks = axis_of([*gold.tolist(), *predicted.tolist()])
    margin = 0.02 * (high - low)
    chart = Chart("Predicted over true values", f"{len(gold):,} examples.", 366)
    x, y = (Scale(low - margin, high + margin, *ends) for ends in ((44, WIDTH - 10), (342, 12)))
    chart.rows(y, ticks, "{:.3g}".format, x)
    for tick in ticks:
        chart.label(f"{tick:.3g}", x(tick), y.start + 18)
    chart.line("ideal", (x.start, x.end), (y.start, y.end))
    kept = np.unique(np.linspace(0, max(len(gold) - 1, 0), min(MOST_DOTS, len(gold))).round().astype(np.int64))
    for right, given in zip(gold[kept].tolist(), predicted[kept].tolist(), strict=True):
        chart.dot("dot cloud", x(right), y(given), 3, f"true {right:.4g}, predicted {given:.4g}")
    return chart


def reliability_chart(bins: Sequence[tuple[int, float, float]], lowest: float, description: str) -> Chart:
    """Draws a reliability diagram: accuracy over predicted probability, and a histogram of the bins below.

    Each bin has rows, mean probability and accuracy; bins divide [0, 1] evenly. Both axes begin at `lowest`.
    """
    floor, strip = 242.0, 46.0
    chart = Chart("Accuracy by predicted probability", description, floor + strip + 54)
    x, y = Scale(lowest, 1, 44, WIDTH - 10), Scale(lowest, 1, floor, 12)
    ticks = (lowest, (1 + lowest) / 2, 1.0)
    chart.rows(y, ticks, "{:.0%}".format, x)
    for tick in ticks:
        chart.label(f"{tick:.0%}", x(tick), floor + 18, "end" if tick == 1 else "middle")
    chart.line("ideal", (x.start, x.end), (y.start, y.end))
    most = max(count for count, _, _ in bins)
    for number, (count, confidence, accuracy) in enumerate(bins):
        if not count:
            continue
        left, right = x(max(number / len(bins), lowest)), x((number + 1) / len(bins))
        tip = f"{count:,} with mean probability {confidence:.1%}: {accuracy:.1%} correct"
        at, height = y(max(accuracy, lowest)), strip * count / most
        chart.line("gap", (x(confidence), x(confidence)), (at, y(confidence)))
        chart.dot("dot far" if abs(confidence - accuracy) > _FAR else "dot", x(confidence), at, 6, tip)
        chart.bar("bar", (left + 1, floor + 34 + strip - height), (right - left - 2, height), tip, 2)
        chart.label(f"{count:,}", (left + right) / 2, floor + 48 + strip)
    return chart


def heat_chart(labels: Sequence[str], counts: np.ndarray) -> Chart:
    """Draws a confusion matrix of many labels: rows are true labels, columns are predicted labels."""
    size, left, top = len(labels), 96.0, 96.0
    side = (WIDTH - left - 4) / size
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    description = f"{size} labels; {int(np.trace(counts)):,} of {int(counts.sum()):,} on the diagonal."
    chart = Chart("True labels by predicted labels", description, top + side * size + 4)
    chart.mark("rect", "plane", x=left, y=top, width=side * size, height=side * size)
    for gold, predicted in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True):
        kind, share = "cell", shares[gold, predicted]
        tip = f"{cut(labels[gold], 40)} predicted as {cut(labels[predicted], 40)}: {counts[gold, predicted]:,}"
        if gold == predicted:
            kind, tip = "cell same", f"{cut(labels[gold], 40)}: {counts[gold, predicted]:,} correct"
        place = {"x": left + side * predicted, "y": top + side * gold, "width": side * 0.92, "height": side * 0.92}
        # Cells are small, so that coordinates have two decimal places.
        exact = {name: f"{value:.2f}" for name, value in (place | {"opacity": 0.15 + 0.85 * share}).items()}
        chart.mark("rect", kind, f"{tip} ({share:.1%})", **exact)
    for number, label in enumerate(labels):
        middle, name = side * (number + 0.5) + 2.5, cut(label, 18)
        chart.label(name, left - 4, top + middle, "end", "name")
        upright = chart.label(name, 0, 0, "start", "name")
        upright.set("transform", f"translate({_px(left + middle)} {_px(top - 4)}) rotate(-90)")
    return chart


def matrix_chart(
    title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray, form: str = "{:.2f}"
) -> Chart:
    """Draws numbers (rows, columns) as cells, darker for higher ones; `form` is the format of a number."""
    numbers = np.asarray(values, np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    longest = max(map(len, [*rows, ""]))
    left, turned = min(10.0 + 7 * longest, 0.5 * WIDTH), max(map(len, columns)) * len(columns) > 48
    top = min(12.0 + 6.5 * max(map(len, columns)), 130.0) if turned else 20.0
    side = (WIDTH - left) / len(columns)
    tall = min(side, 34.0) if len(columns) <= _MOST_NUMBERS else side
    chart = Chart(title, f"{len(rows)} rows, {len(columns)} columns.", top + tall * len(rows))
    for row, name in enumerate(rows):
        chart.label(cut(name, 34), left - 8, top + tall * (row + 0.5) + 4, "end", "name")
        for column, other in enumerate(columns):
            share = (numbers[row, column] - low) / (high - low or 1.0)
            number = form.format(numbers[row, column])
            x, y = left + side * column, top + tall * row
            opacity = f"{0.06 + 0.94 * share:.2f}"
            cell = {"x": x + 1, "y": y + 1, "width": side - 2, "height": tall - 2, "rx": min(3.0, tall / 8)}
            chart.mark("rect", "warm", f"{name}, {other}: {number}", **cell, opacity=opacity)
            if len(columns) <= _MOST_NUMBERS:
                kind = "number strong" if share > 0.6 else "number"
                chart.label(number, x + side / 2, y + tall / 2 + 4, kind=kind)
    for column, name in enumerate(columns):
        middle = left + side * (column + 0.5)
        label = chart.label(cut(name, 20), 0 if turned else middle, 0 if turned else top - 7, "start", "name")
        if turned:
            label.set("transform", f"translate({_px(middle + 4)} {_px(top - 6)}) rotate(-90)")
        else:
            label.set("text-anchor", "middle")
    return chart


def points_chart(title: str, groups: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]) -> Chart:
    """Draws the points (N, 2) of each group in one color; `names` are the tooltips of a group's points.

    Both axes have the same scale and no ticks, because only distances matter.
    """
    if len(groups) > _GROUPS:
        raise ValueError(f"`groups` must be at most {_GROUPS}. Received: {len(groups)}")
    points = np.concatenate(list(groups.values())).astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (WIDTH - 24) / max(float(high[0] - low[0]), 1e-9)
    height = scale * float(high[1] - low[1]) + 24
    chart = Chart(title, f"{len(points)} points in {len(groups)} groups.", height + 30)
    for number, (group, places) in enumerate(groups.items()):
        for place, name in zip(places, names[group], strict=True):
            x, y = 12 + scale * (place[0] - low[0]), 12 + scale * (high[1] - place[1])
            chart.dot(f"group{number}", float(x), float(y), 5, f"{group}: {name}")
    at = 8.0
    for number, group in enumerate(groups):
        chart.dot(f"group{number}", at, height + 18, 5)
        chart.label(group, at + 10, height + 22, "start", "name")
        at += 32 + 7 * len(group)
    return chart


def axis_of(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Returns lower end, upper end and ticks, at round numbers, of an axis that covers finite values."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        low, high = low - abs(low or 1) / 2, high + abs(high or 1) / 2
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = [count * step for count in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks


def _px(number: float) -> str:
    """Formats a coordinate with one decimal place."""
    return f"{number:.1f}".removesuffix(".0")
