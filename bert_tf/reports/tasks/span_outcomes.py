"""Matches predicted spans to gold spans: right, missed, invented, wrong type or wrong bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bert_tf.reports.tasks.label_metrics import Scores
from bert_tf.reports.tasks.scored import ScoredSpans, Span

RIGHT, TYPE, BOUNDS, MISSED, INVENTED = "right", "type", "bounds", "missed", "invented"
# In display order.
FATES = (RIGHT, BOUNDS, TYPE, MISSED, INVENTED)


@dataclass(frozen=True)
class Outcome:
    """A gold span and its matching predicted span.

    Args:
        fate: outcome, one of `FATES`; with `type` the bounds may also differ.
        gold: gold span; None if `fate` is invented.
        predicted: predicted span; None if `fate` is missed.
    """

    fate: str
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
    """Matches the spans of a text; every span is in exactly one outcome.

    A predicted span is matched to the gold span with equal bounds, else to the first unmatched gold span that it
    overlaps.

    Args:
        row: text with gold and predicted spans.

    Returns:
        Outcomes in the order of the text.
    """
    gold, found = _ordered(row.gold), _ordered(row.predicted)
    same_place = {(span.start, span.end): span for span in found}
    pairs = []
    for span in gold:
        other = same_place.pop((span.start, span.end), None)
        if other is not None:
            pairs.append(Outcome(RIGHT if other.label == span.label else TYPE, span, other))
    matched, used = {pair.gold for pair in pairs}, {pair.predicted for pair in pairs}
    pairs += _overlapping([span for span in gold if span not in matched], [span for span in found if span not in used])
    return sorted(pairs, key=lambda pair: (pair.start, pair.end))


def by_type(rows: Iterable[ScoredSpans]) -> list[Scores]:
    """Returns the scores of every span type, the most frequent first; a prediction is right on an exact match."""
    counts: dict[str, list[int]] = {}
    for row in rows:
        gold, predicted = set(row.gold), set(row.predicted)
        for place, spans in enumerate((gold, predicted, gold & predicted)):
            for span in spans:
                counts.setdefault(span.label, [0, 0, 0])[place] += 1
    scores = [Scores(label, *three) for label, three in counts.items()]
    return sorted(scores, key=lambda one: (-one.gold, -one.predicted, one.label))


def _ordered(spans: Sequence[Span]) -> list[Span]:
    return sorted(set(spans), key=lambda span: (span.start, span.end, span.label))


def _overlapping(gold: Sequence[Span], found: Sequence[Span]) -> list[Outcome]:
    """Matches spans without equal bounds by overlap; the spans of each side must be disjoint."""
    pairs, waiting = [], list(found)
    for span in gold:
        while waiting and waiting[0].end <= span.start:
            pairs.append(Outcome(INVENTED, None, waiting.pop(0)))
        if waiting and waiting[0].start < span.end:
            other = waiting.pop(0)
            pairs.append(Outcome(BOUNDS if other.label == span.label else TYPE, span, other))
        else:
            pairs.append(Outcome(MISSED, span, None))
    return pairs + [Outcome(INVENTED, None, span) for span in waiting]
