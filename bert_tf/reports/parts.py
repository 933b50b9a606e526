"""Page elements shared by the prediction and sweep reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import Element, tostring

from bert_tf.config.files import staged_file
from bert_tf.reports.data.page import table_card
from bert_tf.reports.html import Content, element
from bert_tf.reports.style import styled_page
from bert_tf.reports.tasks.style import PAGE_STYLE
from bert_tf.reports.text import cut, named

Row = TypeVar("Row")
# Maximum length of file names and labels.
LONGEST_NAME = 60
_MOST_BYTES = 1_500_000


def write_page(path: Path, title: str, main: Element) -> None:
    """Writes a page atomically."""
    with staged_file(path) as file:
        file.write(styled_page(cut(title, 200), main, PAGE_STYLE).encode())


def heading(kicker: str, title: str, lead: str) -> Iterator[Element]:
    """Yields the heading of a page."""
    yield element("p", kicker, class_="kicker")
    yield element("h1", cut(title, 200))
    yield element("p", lead, class_="lead")


def warning(text: str) -> Iterator[Element]:
    """Yields a warning, or nothing if `text` is empty."""
    if text:
        first, _, rest = text.partition(":")
        words = (element("b", cut(first)), cut(f":{rest}")) if rest else (cut(text),)
        yield element("div", *(element("bdi", word) for word in words), class_="verdict warn", role="note")


def figure_boxes(figures: Sequence[tuple[str, str, str]]) -> Element:
    """Renders values in large type; each item is name, value and note."""
    boxes = (
        element("div", element("dt", name), element("dd", value, class_="big"), *_more(more))
        for name, value, more in figures
    )
    return element("dl", *boxes, class_="figures fitted")


def metric_boxes(metrics: Mapping[str, float]) -> Element:
    """Renders metrics in large type."""
    return figure_boxes([(named(name, LONGEST_NAME), figure(value), "") for name, value in metrics.items()])


def figure(value: float) -> str:
    """Formats a metric with four digits: `0.9289`, `80.85`, `1,043`."""
    if not math.isfinite(value):
        return "not defined"
    if float(value).is_integer() and abs(value) > 1:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.2f}"


def chart_card(title: str, note: str, chart: Element, kind: str = "") -> Element:
    """Renders a chart on a card."""
    note_below = element("p", note, class_="note")
    return element("section", element("h3", title), note_below, chart, class_=f"card {kind}".strip())


def bounded(rows: Sequence[Row], article: Callable[[int, Row], Element], most: int = _MOST_BYTES) -> Iterator[Element]:
    """Renders rows as articles up to a total size.

    Args:
        rows: rows to render.
        article: function from the number of a row (from 1) and the row to its article.
        most: maximum total size in characters.

    Yields:
        The articles and, if some were left out, a note with their number.
    """
    size = 0
    for number, row in enumerate(rows, start=1):
        rendered = article(number, row)
        size += len(tostring(rendered, "unicode"))
        if size > most:
            left_out = len(rows) - number + 1
            yield element("p", f"{left_out:,} more are left out to limit the size of this page.", class_="note")
            return
        yield rendered


def name_of(text: str) -> Element:
    """Renders a name from data as a label; its writing direction is isolated from the surrounding text."""
    return element("bdi", named(text, LONGEST_NAME), class_="name")


def compact_table(columns: Sequence[tuple[str, str]], rows: Iterator[Sequence[Content]]) -> Element:
    """Renders a table of few narrow columns, which stays a table on small screens.

    Args:
        columns: heading and CSS class of each column; `n` is for numbers.
        rows: cells of each row.

    Returns:
        The card.
    """
    card = table_card(columns, rows)
    card.set("class", "card tablecard compact")
    return card


def _more(text: str) -> Iterator[Element]:
    if text:
        yield element("dd", text, class_="more")
