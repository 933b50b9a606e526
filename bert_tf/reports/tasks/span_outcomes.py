"""What became of every span of a text: right, missed, invented, of another type or with other bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bert_tf.reports.tasks.label_metrics import Scores
from bert_tf.tasks.scored import ScoredSpans, Span

RIGHT, TYPE, BOUNDS, MISSED, INVENTED = "right", "type", "bounds", "missed", "invented"
# In the order in which pages show them.
FATES = (RIGHT, BOUNDS, TYPE, MISSED, INVENTED)


@dataclass(frozen=True)
class Outcome:
    """A right span and the one found for it.

    Args:
        fate: of `FATES`; `type` may have other bounds too.
        gold: the right one; None where `fate` is invented.
        predicted: the one found; None where `fate` is missed.
    """

    fate: str
    gold: Span | None
    predicted: Span | None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Those that there are."""
        return tuple(span for span in (self.gold, self.predicted) if span is not None)

    @property
    def start(self) -> int:
        """The first character of both."""
        return min(span.start for span in self.spans)

    @property
    def end(self) -> int:
        """The character after the last one of both."""
        return max(span.end for span in self.spans)


def outcomes(row: ScoredSpans) -> list[Outcome]:
    """Returns what became of the spans of a text, in the order of the text; every span is in one outcome.

    A span found belongs to the right one of equal bounds, or else to the first that it overlaps and that has none yet.
    """
    gold, found = _ordered(row.gold), _ordered(row.predicted)
    same_place = {(span.start, span.end): span for span in found}
    pairs = []
    for span in gold:
        other = same_place.pop((span.start, span.end), None)
        if other is not None:
            pairs.append(Outcome(RIGHT if other.label == span.label else TYPE, span, other))
    met, given = {pair.gold for pair in pairs}, {pair.predicted for pair in pairs}
    pairs += _overlapping([span for span in gold if span not in met], [span for span in found if span not in given])
    return sorted(pairs, key=lambda pair: (pair.start, pair.end))


def by_type(rows: Iterable[ScoredSpans]) -> list[Scores]:
    """Returns how every type of span fares, the most frequent first; right is what equals a right span."""
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
    """Returns the outcomes of spans of which none has the bounds of another; spans of one side stand apart."""
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
