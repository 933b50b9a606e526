"""Charts as inline SVG, each with a title, a description, and values as tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from bert_tf.reports.data.facts import SIGMAS, LabelBalance, percent
from bert_tf.reports.html import element

# In units of the view box; the page scales it to the available width.
WIDTH = 480.0
_HEIGHT = 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 6.0, 22.0, 26.0
# A bar this many times as high as the second highest is cut, so that the other bars stay visible.
_CUT = 4.0


@dataclass(frozen=True)
class Bar:
    """One bar of a column chart: its height and its label."""

    value: int
    label: str


def column_chart(title: str, description: str, bars: Sequence[Bar], ticks: Sequence[tuple[float, str]]) -> Element:
    """Draws a histogram.

    Args:
        title: accessible title of the chart.
        description: accessible description of the chart.
        bars: bars from left to right.
        ticks: position (in bars from the left edge) and label of each tick on the horizontal axis.

    Returns:
        The `svg` element.
    """
    total = sum(bar.value for bar in bars)
    order = sorted((bar.value for bar in bars), reverse=True)
    cut = len(order) > 1 and order[0] > _CUT * max(order[1], 1)
    top = 1.6 * order[1] if cut and order[1] else order[0]
    step = (WIDTH - _LEFT - _RIGHT) / len(bars)
    floor, room = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    parts = [_grid(part * (order[1] if cut else top), total, floor - room * part * (order[1] if cut else top) / top)
             for part in (0.5, 1.0) if order[0]]  # fmt: skip
    for number, bar in enumerate(bars):
        height = room * min(bar.value, top) / max(top, 1)
        x, gap = _LEFT + number * step, min(2.0, step * 0.15)
        column = element("rect", element("title", f"{bar.label}: {bar.value:,} ({percent(bar.value, total)})"),
                         class_="bar", x=px(x + gap / 2), width=px(step - gap), y=px(floor - height), height=px(height),
                         rx=px(min(2.0, step / 4)))  # fmt: skip
        parts.append(column)
        if cut and bar.value == order[0]:
            parts += _cut_marks(x + gap / 2, step - gap, floor - 0.82 * room)
            anchor = "end" if number > len(bars) / 2 else "start"
            edge = x + step - gap if anchor == "end" else x
            parts.append(svg_text(percent(bar.value, total), edge, _TOP - 7, anchor, "value"))
    parts.append(element("line", class_="axis", x1=px(_LEFT), x2=px(WIDTH - _RIGHT), y1=px(floor), y2=px(floor)))
    for position, label in ticks:
        anchor = "end" if position > len(bars) - 1 else "middle"
        parts.append(svg_text(label, _LEFT + position * step, _HEIGHT - 8, anchor))
    return svg_chart(title, description, _HEIGHT, parts)


def balance_chart(balance: LabelBalance) -> Element:
    """Draws the deviation of the share of random pairs from the expected share, in standard deviations."""
    reach, middle, y, height = 6.0, WIDTH / 2, 40.0, 92.0
    unit = (middle - 16) / reach
    at = middle + unit * max(-reach, min(reach, balance.deviation))
    parts = [
        element("rect", class_="allowed", x=px(middle - SIGMAS * unit), y=px(y - 14), rx=4, height=28,
                width=px(2 * SIGMAS * unit)),
        element("line", class_="axis", x1=16, x2=px(WIDTH - 16), y1=px(y), y2=px(y)),
        element("line", class_="axis", x1=px(middle), x2=px(middle), y1=px(y - 14), y2=px(y + 14)),
        element("circle", element("title", f"{balance.deviation:+.1f} standard deviations"),
                class_="dot" if abs(balance.deviation) <= SIGMAS else "dot off", cx=px(at), cy=px(y), r=7),
    ]  # fmt: skip
    for sigmas in (-SIGMAS, 0.0, SIGMAS):
        place = middle + sigmas * unit
        parts.append(svg_text(f"{balance.expected + sigmas * balance.sigma:.2%}", place, y + 32, "middle"))
    parts.append(svg_text(f"{balance.share:.2%}", at, y - 22, "middle", "value"))
    description = (
        f"{balance.share:.2%} of the pairs are random; {balance.expected:.2%} were expected, "
        f"with a tolerance of {SIGMAS * balance.sigma:.2%} on either side."
    )
    return svg_chart("Share of random pairs", description, height, parts)


def bullet_chart(title: str, rows: Sequence[tuple[str, float, float]]) -> Element:
    """Draws measured shares as bars and expected shares as lines across them.

    Args:
        title: accessible title of the chart.
        rows: label, measured share and expected share of each row.

    Returns:
        The `svg` element.
    """
    step, left, right = 34.0, 112.0, 64.0
    room = WIDTH - left - right
    parts = []
    for number, (label, measured, expected) in enumerate(rows):
        y = 6 + number * step
        at = left + room * expected
        parts += [
            svg_text(label, left - 12, y + 15, "end", "name"),
            element("rect", class_="track", x=px(left), y=px(y), width=px(room), height=20, rx=4),
            element("rect", element("title", f"{label}: {measured:.1%}, {expected:.1%} expected"), class_="bar",
                    x=px(left), y=px(y), width=px(room * min(measured, 1)), height=20, rx=4),
            element("line", class_="expected", x1=px(at), x2=px(at), y1=px(y - 4), y2=px(y + 24)),
            svg_text(f"{measured:.1%}", WIDTH - right + 10, y + 15, "start", "value"),
        ]  # fmt: skip
    description = "; ".join(f"{label} {measured:.1%}, {expected:.1%} expected" for label, measured, expected in rows)
    return svg_chart(title, f"{description}.", 6 + step * len(rows), parts)


def svg_chart(title: str, description: str, height: float, parts: Sequence[Element]) -> Element:
    """Builds a chart of full page width, with `height` in units of `WIDTH`."""
    return element(
        "svg", element("title", title), element("desc", description), *parts, role="img", class_="chart",
        viewBox=f"0 0 {WIDTH:g} {height:g}", aria_label=f"{title}. {description}",
    )  # fmt: skip


def _grid(value: float, total: int, y: float) -> Element:
    line = element("line", class_="grid", x1=px(_LEFT), x2=px(WIDTH - _RIGHT), y1=px(y), y2=px(y))
    return element("g", line, svg_text(percent(value, total), _LEFT - 6, y + 4, "end"))


def _cut_marks(x: float, width: float, y: float) -> list[Element]:
    """Draws the slanted gap across a cut bar."""
    points = (
        f"{px(x - 1)},{px(y + 4)} {px(x + width + 1)},{px(y - 4)} {px(x + width + 1)},{px(y)} {px(x - 1)},{px(y + 8)}"
    )
    return [element("polygon", class_="cut", points=points)]


def svg_text(text: str, x: float, y: float, anchor: str, kind: str = "tick") -> Element:
    """Returns a text element at (x, y); `anchor` is `start`, `middle` or `end`."""
    return element("text", text, class_=kind, x=px(x), y=px(y), text_anchor=anchor)


def px(number: float) -> str:
    """Formats a coordinate with one decimal place."""
    return f"{number:.1f}".removesuffix(".0")
