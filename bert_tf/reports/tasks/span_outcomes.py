"""Matches predicted spans to gold spans: correct, wrong boundary, wrong type, missed or spurious."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bert_tf.reports.tasks.label_metrics import Scores, scores_of
from bert_tf.reports.tasks.scored import ScoredSpans, Span

CORRECT, BOUNDARY, TYPE, MISSED, SPURIOUS = "correct", "boundary", "type", "missed", "spurious"
# In display order.
OUTCOMES = (CORRECT, BOUNDARY, TYPE, MISSED, SPURIOUS)


@dataclass(frozen=True)
class Outcome:
    """A gold span and its matching predicted span; None for a spurious or a missed one.

    `kind` is one of `OUTCOMES`; with `type` the bounds may also differ.
    """

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


def outcomes(row: ScoredSpans) -> list[Outcome]:
    """Matches the spans of a text, in the order of the text; every span is in exactly one outcome.

    A predicted span is matched to the gold span with equal bounds, else to the first unmatched gold span that it
    overlaps.
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
