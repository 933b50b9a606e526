"""Sections on spans: answers to questions in their contexts, or entities in their sentences.

Predicted spans are matched to gold spans: correct, wrong boundary, wrong type, missed or spurious.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bert_tf.entry.amounts import plural
from bert_tf.reports.charts import Chart, Row, row_chart
from bert_tf.reports.tasks.label_metrics import Scores, scores_of
from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.reports.text import SHOWN_WORST, Excerpt, cut, is_shown, percent, share, shown, spread, windows, worst

CORRECT, BOUNDARY, TYPE, MISSED, SPURIOUS = "correct", "boundary", "type", "missed", "spurious"
# In display order.
OUTCOMES = (CORRECT, BOUNDARY, TYPE, MISSED, SPURIOUS)
_SHOWN_CORRECT = 25
_MOST_TYPES = 40
# Scores of a text: fully, partly and not correct.
_VERDICTS = (CORRECT, "partial", "wrong")
_COLOURS = 8
_LONGEST_TYPE = 24
# Maximum labels behind overlapping spans.
_MOST_TAGS = 6
_PHRASES = {TYPE: "with wrong type", BOUNDARY: "with wrong boundary"}


@dataclass(frozen=True)
class Outcome:
    """A gold span and its matching predicted span; None if spurious or missed. With `type`, bounds may differ."""

    kind: str
    gold: Span | None
    predicted: Span | None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The gold and the predicted span, without None."""
        return tuple(span for span in (self.gold, self.predicted) if span is not None)

    @property
    def start(self) -> int:
        """The smaller start offset of both spans."""
        return min(span.start for span in self.spans)

    @property
    def end(self) -> int:
        """The larger end offset (exclusive) of both spans."""
        return max(span.end for span in self.spans)


_SAMPLE = Span(0, 10, "TYPE")
_LEGEND = (
    (Outcome(CORRECT, _SAMPLE, _SAMPLE), "correct"),
    (Outcome(MISSED, _SAMPLE, None), "missed"),
    (Outcome(SPURIOUS, None, _SAMPLE), "predicted without a true entity"),
    (Outcome(TYPE, _SAMPLE, Span(0, 10, "OTHER")), "predicted with the wrong type, crossed out"),
    (
        Outcome(BOUNDARY, Span(0, 4, "TYPE"), _SAMPLE),
        "predicted with wrong boundary: true span underlined, predicted span filled",
    ),
)


@dataclass(frozen=True)
class Marked:
    """A marked part of a text: CSS classes, and the texts with their own CSS classes, in order.

    `tags` are labels behind the text, each with a wrong label to cross out or an empty text.
    """

    kind: str
    parts: Sequence[tuple[str, str]]
    tags: Sequence[tuple[str, str]] = ()


# A part of a text: unmarked, marked, or None for characters that are left out.
Part = str | Marked | None


def question_context(rows: Sequence[ScoredSpans]) -> dict[str, Any]:
    """Returns the variables of `questions.html.jinja`."""
    counts: dict[str, Counter[str]] = {}
    for row in sorted(rows, key=lambda row: not row.gold):
        counts.setdefault("with an answer" if row.gold else "without one", Counter())[_verdict(row)] += 1
    total = Counter(map(_verdict, rows))
    left_out = sum(bool(row.gold) and not row.predicted for row in rows)
    note = ", ".join(f"{percent(total[kind], len(rows))} {kind}" for kind in _VERDICTS)
    return _examples([(row, ()) for row in rows], lambda row, _: _question(row)) | {
        "what": "question",
        "card_note": f"{note}." + (f" {left_out:,} with an answer were predicted to have none." if left_out else ""),
        "chart": _outcome_chart("Questions by score", _VERDICTS, counts),
        "keys": {kind: kind for kind in _VERDICTS},
    }


def entity_context(rows: Sequence[ScoredSpans]) -> dict[str, Any]:
    """Returns the variables of `entities.html.jinja`."""
    scores = by_type(rows)
    # The most frequent types have distinct colours.
    colours = {score.label: number % _COLOURS for number, score in enumerate(scores)}
    matched = [(row, outcomes(row)) for row in rows]
    counts: dict[str, Counter[str]] = {}
    for one in itertools.chain.from_iterable(found for _, found in matched):
        counts.setdefault(one.spans[0].label, Counter())[one.kind] += 1
    total = sum(counts.values(), Counter[str]())
    most = sorted(counts.items(), key=lambda item: -item[1].total())[:_MOST_TYPES]
    return _examples(matched, lambda row, found: _sentence(row, found, colours)) | {
        "what": "text",
        "card_note": ", ".join(f"{total[kind]:,} {_PHRASES.get(kind, kind)}" for kind in OUTCOMES) + ".",
        "chart": _outcome_chart("Entities by outcome", OUTCOMES, dict(most)),
        "keys": {kind: _PHRASES.get(kind, kind) for kind in OUTCOMES},
        "scores": scores[:_MOST_TYPES],
        "legend": [(_box("some words", [outcome], Excerpt(0, 10), {}), words) for outcome, words in _LEGEND],
    }


def _examples(
    matched: Sequence[tuple[ScoredSpans, Sequence[Outcome]]],
    article: Callable[[ScoredSpans, Sequence[Outcome]], dict[str, Any]],
) -> dict[str, Any]:
    """Returns the worst examples and a sample of correct ones as articles, and the numbers of all of them."""
    wrong = [item for item in matched if item[0].right < 1]
    correct = [item for item in matched if item[0].right >= 1]
    # Examples with a lower score are worse, then examples with more wrong spans.
    chosen = worst(wrong, lambda item: (-item[0].right, sum(one.kind != CORRECT for one in item[1])))
    return {
        "wrong": len(wrong),
        "is_sampled": len(wrong) > SHOWN_WORST,
        "worst": [article(*item) for item in chosen],
        "correct": len(correct),
        "sample": [article(*item) for item in spread(correct, _SHOWN_CORRECT)],
    }


def _outcome_chart(title: str, kinds: Sequence[str], counts: Mapping[str, Counter[str]]) -> Chart:
    """Draws the counts of each kind of outcome, one bar for each name."""
    rows = []
    for name, count in counts.items():
        total = count.total()
        parts = [
            (f"outcome-{kind}", share(n, total), f"{cut(name, 40)}: {n:,} {kind} ({percent(n, total)})")
            for kind, n in ((kind, count[kind]) for kind in kinds)
        ]
        rows.append(Row(cut(name, 16), parts, f"{total:,}"))
    sums = (f"{sum(count[kind] for count in counts.values()):,} {kind}" for kind in kinds)
    return row_chart(title, f"{'; '.join(sums)}.", rows)


def _verdict(row: ScoredSpans) -> str:
    return _VERDICTS[0 if row.right >= 1 else 1 if row.right > 0 else 2]


def _question(row: ScoredSpans) -> dict[str, Any]:
    """Returns an article on a question: its answers, and its context with the answers marked."""
    shown_spans = (*row.predicted[:1], *row.gold)
    spans = [(span.start, span.end) for span in shown_spans]
    kept = windows(row.text, spans)
    marked: list[Part] = []
    for window in kept:
        marked += [None] if window.start else []
        for start, end in _pieces(shown_spans, window):
            sides = (("gold", row.gold), ("predicted", row.predicted[:1]))
            kinds = [kind for kind, side in sides if any(span.start <= start and end <= span.end for span in side)]
            text = shown(row.text[start:end])
            marked.append(Marked(" ".join(kinds), [("", text)]) if kinds else text)
    return {
        "row": row,
        "verdict": _verdict(row),
        "gold": list(dict.fromkeys(row.text[span.start : span.end] for span in row.gold)),
        "predicted": [row.text[span.start : span.end] for span in row.predicted[:1]],
        "marked": [*marked, *_rest(row.text, kept)],
        "hidden": sum(not is_shown(*span, kept) for span in dict.fromkeys(spans)),
    }


def _sentence(row: ScoredSpans, matched: Sequence[Outcome], colours: Mapping[str, int]) -> dict[str, Any]:
    """Returns an article on a text with its entities and their counts; long texts are cut around the wrong ones."""
    # Wrong entities come first, so that they are shown if there is not enough room for all.
    spans = [(one.start, one.end) for one in sorted(matched, key=lambda one: one.kind == CORRECT)]
    kept = windows(row.text, spans)
    groups = _overlap_groups(matched)
    marked: list[Part] = []
    for window in kept:
        marked += [None] if window.start else []
        place = window.start
        for group in groups:
            start = max(group[0].start, window.start)
            end = min(max(one.end for one in group), window.end)
            if start < end:
                marked += [shown(row.text[place:start]), _box(row.text, group, Excerpt(start, end), colours)]
                place = end
        marked.append(shown(row.text[place : window.end]))
    counts = Counter(one.kind for one in matched)
    summary = ", ".join(f"{counts[kind]} {_PHRASES.get(kind, kind)}" for kind in OUTCOMES if counts[kind])
    hidden = sum(not is_shown(*span, kept) for span in spans)
    note = f"; {plural(hidden, 'entity') if hidden == 1 else f'{hidden} entities'} not shown" if hidden else ""
    return {
        "row": row,
        "verdict": _verdict(row),
        "marked": [*marked, *_rest(row.text, kept)],
        "note": f"{summary or 'No entities'}{note}.",
    }


def _rest(text: str, kept: Sequence[Excerpt]) -> list[Part]:
    return [None] if kept and kept[-1].end < len(text) else []


def _box(text: str, group: Sequence[Outcome], window: Excerpt, colours: Mapping[str, int]) -> Marked:
    """Marks the part of overlapping entities inside a window, followed by their types."""
    kinds = {one.kind for one in group}
    kind = kinds.pop() if len(kinds) == 1 else BOUNDARY
    parts = []
    for start, end in _pieces([span for one in group for span in one.spans], window):
        sides = (("g", [one.gold for one in group]), ("p", [one.predicted for one in group]))
        classes = [name for name, spans in sides if any(span and span.start <= start < span.end for span in spans)]
        parts.append((" ".join(classes), shown(text[start:end])))
    colour = colours.get(group[0].spans[0].label, 0)
    return Marked(f"{kind} t{colour}", parts, [_tag(one) for one in group[:_MOST_TAGS]])


def _tag(one: Outcome) -> tuple[str, str]:
    """Returns the type of an entity with its outcome if it is not correct, and its wrong predicted type."""
    label = cut(one.spans[0].label, _LONGEST_TYPE)
    if one.kind in (MISSED, SPURIOUS):
        return f"{one.kind} {label}".rstrip(), ""
    if one.kind == TYPE and one.predicted is not None:
        return label, cut(one.predicted.label, _LONGEST_TYPE)
    return f"{label} boundary" if one.kind == BOUNDARY else label, ""


def _overlap_groups(matched: Sequence[Outcome]) -> list[list[Outcome]]:
    """Groups overlapping outcomes, in order of the text."""
    groups: list[list[Outcome]] = []
    reach = -1
    for one in sorted(matched, key=lambda one: one.start):
        if groups and one.start < reach:
            groups[-1].append(one)
        else:
            groups.append([one])
        reach = max(reach, one.end)
    return groups


def _pieces(spans: Sequence[Span], window: Excerpt) -> Iterator[tuple[int, int]]:
    """Splits a window at all span boundaries and yields the (start, end) parts."""
    places = {place for span in spans for place in (span.start, span.end) if window.start < place < window.end}
    yield from itertools.pairwise([window.start, *sorted(places), window.end])


def outcomes(row: ScoredSpans) -> list[Outcome]:
    """Matches the spans of a text, in the order of the text; every span is in exactly one outcome.

    A predicted span is matched to the gold span with equal bounds, else to the first unmatched one that it overlaps.
    """
    gold, predicted = _ordered(row.gold), _ordered(row.predicted)
    same_place = {(span.start, span.end): span for span in predicted}
    pairs = []
    for span in gold:
        other = same_place.pop((span.start, span.end), None)
        if other is not None:
            pairs.append(Outcome(CORRECT if other.label == span.label else TYPE, span, other))
    matched, used = {pair.gold for pair in pairs}, {pair.predicted for pair in pairs}
    pairs += _overlapping(
        [span for span in gold if span not in matched], [span for span in predicted if span not in used]
    )
    return sorted(pairs, key=lambda pair: (pair.start, pair.end))


def by_type(rows: Iterable[ScoredSpans]) -> list[Scores]:
    """Returns the scores of every span type, the most frequent first; a prediction is correct on an exact match."""
    sides: tuple[list[str | None], list[str | None]] = ([], [])
    for row in rows:
        gold, predicted = set(row.gold), set(row.predicted)
        for span in gold | predicted:
            for side, spans in zip(sides, (gold, predicted), strict=True):
                side.append(span.label if span in spans else None)
    labels = sorted({label for side in sides for label in side if label is not None})
    numbers: dict[str | None, int] = {None: -1} | {label: number for number, label in enumerate(labels)}
    scores = scores_of(labels, *([numbers[label] for label in side] for side in sides))
    return sorted(scores, key=lambda one: (-one.gold, -one.predicted, one.label))


def _ordered(spans: Sequence[Span]) -> list[Span]:
    return sorted(set(spans), key=lambda span: (span.start, span.end, span.label))


def _overlapping(gold: Sequence[Span], predicted: Sequence[Span]) -> list[Outcome]:
    """Matches spans without equal bounds by overlap; the spans of each side must be disjoint."""
    pairs, waiting = [], list(predicted)
    for span in gold:
        while waiting and waiting[0].end <= span.start:
            pairs.append(Outcome(SPURIOUS, None, waiting.pop(0)))
        if waiting and waiting[0].start < span.end:
            other = waiting.pop(0)
            pairs.append(Outcome(BOUNDARY if other.label == span.label else TYPE, span, other))
        else:
            pairs.append(Outcome(MISSED, span, None))
    return pairs + [Outcome(SPURIOUS, None, span) for span in waiting]
