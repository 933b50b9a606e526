"""Entities marked in their sentence, styled by outcome: right, missed, invented, wrong type or wrong bounds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from bert_tf.reports.data.facts import plural
from bert_tf.reports.html import Content, element
from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.reports.tasks.span_outcomes import BOUNDS, FATES, INVENTED, MISSED, RIGHT, TYPE, Outcome
from bert_tf.reports.text import Window, cut, is_shown, shown, windows

_COLOURS = 8
_LONGEST_TYPE = 24
# Maximum labels behind overlapping spans.
_MOST_TAGS = 6
_WORDS = {TYPE: "with wrong type", BOUNDS: "with wrong bounds"}
# Placeholder type in the legend.
_SAMPLE = "TYPE"


def in_words(fate: str) -> str:
    """Returns the description of an outcome."""
    return _WORDS.get(fate, fate)


class Entities:
    """Renders entities.

    Args:
        types: all entity types, the most frequent first; the first ones have distinct colours.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._colours = {label: number % _COLOURS for number, label in enumerate(dict.fromkeys(types))}

    def legend(self) -> Element:
        """Renders the legend of the outcomes."""
        text = "some words"
        first, whole, other = Span(0, 4, _SAMPLE), Span(0, len(text), _SAMPLE), Span(0, len(text), "OTHER")
        samples = (
            (Outcome(RIGHT, whole, whole), "right"),
            (Outcome(MISSED, whole, None), "missed"),
            (Outcome(INVENTED, None, whole), "predicted without a true entity"),
            (Outcome(TYPE, whole, other), "predicted with the wrong type, crossed out"),
            (Outcome(BOUNDS, first, whole), "predicted with wrong bounds: true span underlined, predicted span filled"),
        )
        return element(
            "ul", *(element("li", self._box(text, [one]), f" {words}") for one, words in samples), class_="legend"
        )

    def article_parts(self, row: ScoredSpans, found: Sequence[Outcome]) -> Iterator[Element]:
        """Yields the text with its entities and their counts; long texts are cut around the wrong entities."""
        # Wrong entities come first, so that they are shown if there is not enough room for all.
        spans = [(one.start, one.end) for one in sorted(found, key=lambda one: one.fate == RIGHT)]
        kept = windows(row.text, spans)
        counts = Counter(one.fate for one in found)
        summary = ", ".join(f"{counts[fate]} {in_words(fate)}" for fate in FATES if counts[fate])
        yield element("p", *self._marked_text(row.text, found, kept), class_="read", dir="auto")
        hidden = sum(not is_shown(*span, kept) for span in spans)
        note = f"; {plural(hidden, 'entity') if hidden == 1 else f'{hidden} entities'} not shown" if hidden else ""
        yield element("p", f"{summary or 'No entities'}{note}.", class_="note")

    def _marked_text(self, text: str, found: Sequence[Outcome], kept: Sequence[Window]) -> Iterator[Content]:
        boxes = _overlap_groups(found)
        for window in kept:
            if window.start:
                yield element("span", "…", class_="gapmark")
            place = window.start
            for box in boxes:
                start = max(min(one.start for one in box), window.start)
                end = min(max(one.end for one in box), window.end)
                if start >= end:
                    continue
                yield shown(text[place:start])
                yield self._box(text, box, Window(start, end))
                place = end
            yield shown(text[place : window.end])
        if kept and kept[-1].end < len(text):
            yield element("span", "…", class_="gapmark")

    def _box(self, text: str, box: Sequence[Outcome], window: Window | None = None) -> Element:
        """Renders the part of overlapping entities inside a window, followed by their types."""
        window = window or Window(box[0].start, box[0].end)
        fates = {one.fate for one in box}
        kind = fates.pop() if len(fates) == 1 else BOUNDS
        places = {place for one in box for span in one.spans for place in (span.start, span.end)}
        cuts = [window.start, *sorted(place for place in places if window.start < place < window.end), window.end]
        parts: list[Content] = []
        for start, end in itertools.pairwise(cuts):
            sides = (("g", [one.gold for one in box]), ("p", [one.predicted for one in box]))
            classes = [name for name, spans in sides if any(span and span.start <= start < span.end for span in spans)]
            parts.append(element("i", shown(text[start:end]), class_=" ".join(classes)))
        colour = self._colours.get(box[0].spans[0].label, 0)
        return element("span", *parts, *map(_tag, box[:_MOST_TAGS]), class_=f"entity {kind} t{colour}")


def _tag(one: Outcome) -> Element:
    """Renders the type of an entity and, if it is not right, its outcome."""
    label = cut(one.spans[0].label, _LONGEST_TYPE)
    if one.fate in (MISSED, INVENTED):
        return element("b", f"{one.fate} {label}".rstrip(), class_="tag")
    if one.fate == TYPE and one.predicted is not None:
        return element("b", f"{label} ", element("span", cut(one.predicted.label, _LONGEST_TYPE), class_="off"),
                       class_="tag")  # fmt: skip
    return element("b", f"{label} bounds" if one.fate == BOUNDS else label, class_="tag")


def _overlap_groups(found: Sequence[Outcome]) -> list[list[Outcome]]:
    """Groups overlapping outcomes, in order of the text."""
    boxes: list[list[Outcome]] = []
    reach = -1
    for one in sorted(found, key=lambda one: one.start):
        if boxes and one.start < reach:
            boxes[-1].append(one)
        else:
            boxes.append([one])
        reach = max(reach, one.end)
    return boxes
