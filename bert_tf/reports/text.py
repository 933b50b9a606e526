"""Texts as pages show them: any character is safe there, and of a long text only what matters is shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Characters: of a text that is shown whole, of what is shown of a longer one, and of what is shown around a span.
WHOLE = 700
MOST = 2100
AROUND = 160
# Of a long span its beginning and end.
_LONG_SPAN, _SPAN_END = 400, 150
# There is never room for more.
_MOST_SPANS = 200
# A cut moves this far at most to fall between words.
_WORD = 24
# Windows this near to each other become one.
_GAP = 24
ELLIPSIS = "…"
NOTHING = "(empty)"
_CODES = 4

# One character for another, so that offsets stay: what has no sign of its own, or would break the page, gets one.
_SIGNS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD),
}


@dataclass(frozen=True)
class Window:
    """Characters `start` to `end` (not included) of a text."""

    start: int
    end: int


def shown(text: str) -> str:
    """Returns `text` with a visible sign for every control character and lone surrogate; its length is the same."""
    return text.translate(_SIGNS)


def cut(text: str, most: int = WHOLE) -> str:
    """Returns the shown beginning of `text`, with an ellipsis where there is more."""
    if len(text) <= most:
        return shown(text)
    end = _between_words(text, most, -1)
    # A long name is one word.
    return f"{shown(text[:end]).rstrip()} {ELLIPSIS}" if 2 * end > most else f"{shown(text[:most])}{ELLIPSIS}"


def named(text: str, most: int) -> str:
    """Returns a name out of data, cut; of one that cannot be seen, its code points."""
    if any(character.isprintable() and not character.isspace() for character in text):
        return cut(text, most)
    return " ".join(f"U+{ord(character):04X}" for character in text[:_CODES]) or NOTHING


def windows(text: str, spans: Iterable[tuple[int, int]]) -> list[Window]:
    """Returns what to show of a text so that its spans are seen.

    Args:
        text: any text.
        spans: first and last character (not included) of each, the most important first.

    Returns:
        Windows in order, apart from each other: the whole text where it has at most `WHOLE` characters, else `MOST` at
        most. Spans for which there is no room are left out; for two there always is. Of a very long one both ends are
        there, but not its middle.
    """
    if len(text) <= WHOLE:
        return [Window(0, len(text))]
    chosen: list[Window] = []
    for start, end in itertools.islice(spans, _MOST_SPANS):
        wanted = _merged([*chosen, *_around(text, start, end)])
        if sum(window.end - window.start for window in wanted) > MOST:
            continue
        chosen = wanted
    return chosen or [Window(0, _between_words(text, WHOLE, -1))]


def is_shown(start: int, end: int, among: Sequence[Window]) -> bool:
    """Tells whether both ends of a span stand in windows."""
    return all(any(window.start <= place <= window.end for window in among) for place in (start, end))


def _around(text: str, start: int, end: int) -> list[Window]:
    before = _between_words(text, max(0, start - AROUND), -1)
    after = _between_words(text, min(len(text), end + AROUND), 1)
    if end - start <= _LONG_SPAN:
        return [Window(before, after)]
    return [Window(before, start + _SPAN_END), Window(end - _SPAN_END, after)]


def _between_words(text: str, place: int, step: int) -> int:
    """Returns the next place from `place` on in the direction of `step` that is between words, if one is near."""
    for distance in range(_WORD):
        near = place + step * distance
        if near <= 0 or near >= len(text):
            return min(max(near, 0), len(text))
        if text[near - 1].isspace() or text[near].isspace():
            return near
    return place


def _merged(parts: list[Window]) -> list[Window]:
    parts.sort(key=lambda window: window.start)
    merged = [parts[0]]
    for part in parts[1:]:
        last = merged[-1]
        if part.start <= last.end + _GAP:
            merged[-1] = Window(last.start, max(last.end, part.end))
        else:
            merged.append(part)
    return merged
