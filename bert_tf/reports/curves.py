"""Line charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from bert_tf.reports.charts import WIDTH, px, svg_chart, svg_text
from bert_tf.reports.html import element

_HEIGHT = 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 10.0, 14.0, 28.0
_TICKS = 4


@dataclass(frozen=True)
class Series:
    """One curve.

    Args:
        name: name and CSS class of the curve.
        points: (x, y) pairs from left to right.
    """

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Level:
    """A horizontal line across a chart.

    Args:
        name: label and CSS class of the line.
        value: y value of the line.
    """

    name: str
    value: float


def line_chart(title: str, unit: str, series: Sequence[Series], form: str, levels: Sequence[Level] = ()) -> Element:
    """Draws curves on common axes.

    Args:
        title: accessible title of the chart.
        unit: unit of the horizontal axis.
        series: curves; the first is drawn as a line, others as dots on a thin line. Non-finite points are dropped.
        form: format of a value, such as `{:.1%}`.
        levels: reference values, drawn as horizontal lines.

    Returns:
        The `svg` element.
    """
    series = [Series(one.name, [(x, y) for x, y in one.points if math.isfinite(y)]) for one in series]
    low, high, ticks = axis_of([*(y for one in series for _, y in one.points), *(level.value for level in levels)])
    right = max((x for one in series for x, _ in one.points), default=0.0) or 1.0
    wide, tall = WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[str, str]:
        return px(_LEFT + wide * x / right), px(_TOP + tall * (1 - (y - low) / (high - low)))

    parts: list[Element] = []
    for tick in ticks:
        _, y = place(0, tick)
        parts.append(element("line", class_="grid", x1=px(_LEFT), x2=px(WIDTH - _RIGHT), y1=y, y2=y))
        parts.append(svg_text(form.format(tick), _LEFT - 8, float(y) + 4, "end"))
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        parts.append(svg_text(f"{right * share:,.0f}", _LEFT + wide * share, _HEIGHT - 8, anchor))
    for level in levels:
        _, y = place(0, level.value)
        parts.append(element("line", class_=f"level {level.name}", x1=px(_LEFT), x2=px(WIDTH - _RIGHT), y1=y, y2=y))
    for position, one in enumerate(series):
        points = [place(x, y) for x, y in one.points]
        parts.append(element("polyline", class_=f"curve {one.name}", points=" ".join(",".join(p) for p in points)))
        if position:
            for (x, y), (step, value) in zip(points, one.points, strict=True):
                words = f"{one.name}, {unit} {step:,.0f}: {form.format(value)}"
                parts.append(element("circle", element("title", words), class_=f"point {one.name}", cx=x, cy=y, r="3"))
    ends_at = [float(place(*one.points[-1])[1]) for one in series if one.points]
    parts += [_beside(level, float(place(0, level.value)[1]), ends_at, form) for level in levels]
    ends = [(one.name, one.points[-1][1]) for one in series if one.points]
    last = "; ".join(f"{name} {form.format(y)}" for name, y in [*ends, *((one.name, one.value) for one in levels)])
    return svg_chart(title, f"After {unit} {right:,.0f}: {last}.", _HEIGHT, parts)


def _beside(level: Level, y: float, ends: Sequence[float], form: str) -> Element:
    """Returns the label of a level at `y`: above the line, or below if there is no room or a curve `ends` there."""
    is_taken = y < _TOP + 12 or any(y - 18 < end <= y + 2 for end in ends)
    words = f"{level.name} {form.format(level.value)}"
    return svg_text(words, WIDTH - _RIGHT, y + 14 if is_taken else y - 5, "end", "beside")


def axis_of(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """Computes an axis for finite values.

    Args:
        values: finite values that the axis must cover.

    Returns:
        Lower end, upper end and ticks at round numbers.
    """
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
