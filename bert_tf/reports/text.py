"""Prepares texts, numbers and rows for display: replaces unsafe characters, shortens, formats and selects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bert_tf.text.vocabulary import CONTINUATION

Row = TypeVar("Row")
# Maximum rows of a list of the worst predictions.
SHOWN_WORST = 100

# Characters: maximum of a text shown in full, maximum shown of a longer text, and context around a span.
WHOLE = 700
MOST = 2100
AROUND = 160
# Spans longer than _LONG_SPAN show only _SPAN_END characters at each end.
_LONG_SPAN, _SPAN_END = 400, 150
# Maximum spans to consider; there is never room for more.
_MOST_SPANS = 200
# Maximum distance to move a cut to a word boundary.
_WORD = 24
# Windows closer than this are merged.
_GAP = 24
ELLIPSIS = "…"
NOTHING = "(empty)"
_CODES = 4

# Characters that are invisible or would break the page, with visible replacements of equal length.
_SIGNS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD),
}


@dataclass(frozen=True)
class Excerpt:
    """A range of characters, from `start` to `end` (exclusive)."""

    start: int
    end: int


def shown(text: str) -> str:
    """Replaces control characters and lone surrogates by visible signs; the length is unchanged."""
    return text.translate(_SIGNS)


def cut(text: str, most: int = WHOLE) -> str:
    """Returns the displayable start of `text`, with an ellipsis if it is cut."""
    if len(text) <= most:
        return shown(text)
    end = _between_words(text, most, -1)
    # A long name is one word.
    return f"{shown(text[:end]).rstrip()} {ELLIPSIS}" if 2 * end > most else f"{shown(text[:most])}{ELLIPSIS}"


def named(text: str, most: int) -> str:
    """Shortens a name from data; an invisible name is shown as code points."""
    if any(character.isprintable() and not character.isspace() for character in text):
        return cut(text, most)
    return " ".join(f"U+{ord(character):04X}" for character in text[:_CODES]) or NOTHING


def windows(text: str, spans: Iterable[tuple[int, int]]) -> list[Excerpt]:
    """Selects the parts of a text that show its spans: (start, end) with the most important first.

    Returns disjoint windows in order: the whole text if it has at most `WHOLE` characters, else at most `MOST`
    characters. Spans without enough room are left out; there is always room for two. Very long spans show only both
    ends.
    """
    if len(text) <= WHOLE:
        return [Excerpt(0, len(text))]
    chosen: list[Excerpt] = []
    for start, end in itertools.islice(spans, _MOST_SPANS):
        wanted = _merged([*chosen, *_around(text, start, end)])
        if sum(window.end - window.start for window in wanted) > MOST:
            continue
        chosen = wanted
    return chosen or [Excerpt(0, _between_words(text, WHOLE, -1))]


def is_shown(start: int, end: int, among: Sequence[Excerpt]) -> bool:
    """Returns True if both ends of a span are in windows."""
    return all(any(window.start <= place <= window.end for window in among) for place in (start, end))


def worst(rows: Sequence[Row], badness: Callable[[Row], Any], count: int = SHOWN_WORST) -> list[Row]:
    """Returns the `count` rows with the largest badness, the worst first.

    Ties at the last place are sampled evenly over the file, because its beginning may cover a single topic.
    """
    bad = [(badness(row), row) for row in rows]
    order = sorted(bad, key=lambda pair: pair[0], reverse=True)
    if len(order) <= count:
        return [row for _, row in order]
    limit = order[count - 1][0]
    beyond = [row for value, row in order if value > limit]
    return beyond + spread([row for value, row in bad if value == limit], count - len(beyond))


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """Returns `count` evenly spaced rows in order, or all rows if there are at most `count`."""
    if len(rows) <= count:
        return list(rows)
    return [rows[(2 * number + 1) * len(rows) // (2 * count)] for number in range(count)]


def share(part: float, whole: float) -> float:
    """Returns `part / whole`, or 0 if `whole` is 0."""
    return part / whole if whole else 0.0


def percent(part: float, whole: float = 1.0, digits: int = 1) -> str:
    """Formats a share in percent: `0%` for 0, and for example `<0.1%` for values that round to 0 with `digits`."""
    value = share(part, whole)
    if not value:
        return "0%"
    least = 10.0 ** (-2 - digits)
    return f"<{least:.{digits}%}" if value < least / 2 else f"{value:.{digits}%}"


def in_bytes(count: float) -> str:
    """Formats a number of bytes with a unit, for example `29.7 MB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size:.0f} bytes"
        size /= 1000
    return f"{size:,.4g} TB"


def piece(text: str) -> str:
    """Returns a word piece with a dot in place of the continuation prefix."""
    return f"·{text.removeprefix(CONTINUATION)}" if text.startswith(CONTINUATION) else text


def flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested mappings under dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def format_metric(value: float) -> str:
    """Formats a metric with four digits: `0.9289`, `80.85`, `1,043`."""
    if not math.isfinite(value):
        return "not defined"
    if float(value).is_integer() and abs(value) > 1:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.2f}"


def _around(text: str, start: int, end: int) -> list[Excerpt]:
    before = _between_words(text, max(0, start - AROUND), -1)
    after = _between_words(text, min(len(text), end + AROUND), 1)
    if end - start <= _LONG_SPAN:
        return [Excerpt(before, after)]
    return [Excerpt(before, start + _SPAN_END), Excerpt(end - _SPAN_END, after)]


def _between_words(text: str, place: int, step: int) -> int:
    """Returns the nearest word boundary from `place` in the direction of `step`, or `place` if none is near."""
    for distance in range(_WORD):
        near = place + step * distance
        if near <= 0 or near >= len(text):
            return min(max(near, 0), len(text))
        if text[near - 1].isspace() or text[near].isspace():
            return near
    return place


def _merged(parts: list[Excerpt]) -> list[Excerpt]:
    parts.sort(key=lambda window: window.start)
    merged = [parts[0]]
    for part in parts[1:]:
        last = merged[-1]
        if part.start <= last.end + _GAP:
            merged[-1] = Excerpt(last.start, max(last.end, part.end))
        else:
            merged.append(part)
    return merged
