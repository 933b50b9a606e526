from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.reports.tasks.spans import (
    BOUNDARY,
    CORRECT,
    MISSED,
    OUTCOMES,
    SPURIOUS,
    TYPE,
    by_type,
    outcomes,
)


def row(gold: tuple[Span, ...], predicted: tuple[Span, ...]) -> ScoredSpans:
    return ScoredSpans("1", "", "x" * 60, gold, predicted, 0.5)


@pytest.mark.parametrize(
    ("gold", "predicted", "kinds"),
    [
        ([(0, 4, "A")], [(0, 4, "A")], [CORRECT]),
        ([(0, 4, "A")], [(0, 4, "B")], [TYPE]),
        ([(0, 4, "A")], [(0, 6, "A")], [BOUNDARY]),
        ([(0, 4, "A")], [(2, 6, "B")], [TYPE]),
        ([(0, 4, "A")], [], [MISSED]),
        ([], [(0, 4, "A")], [SPURIOUS]),
        ([(0, 4, "A")], [(4, 8, "A")], [MISSED, SPURIOUS]),
        ([(0, 4, "A"), (5, 9, "A")], [(0, 9, "A")], [BOUNDARY, MISSED]),
        ([(0, 9, "A")], [(0, 4, "A"), (5, 9, "A")], [BOUNDARY, SPURIOUS]),
        ([(0, 4, "A"), (6, 9, "B")], [(6, 9, "B"), (10, 12, "A")], [MISSED, CORRECT, SPURIOUS]),
    ],
)
def test_kinds(gold: list, predicted: list, kinds: list[str]) -> None:
    found = outcomes(row(tuple(Span(*s) for s in gold), tuple(Span(*s) for s in predicted)))
    assert [one.kind for one in found] == kinds


def disjoint_spans(draw_labels: str):
    """Returns spans that do not overlap, like those of one side."""
    places = st.lists(st.integers(0, 59), unique=True, max_size=12).map(sorted)
    pairs = places.map(lambda p: list(itertools.pairwise(p))[::2])
    return pairs.flatmap(
        lambda p: st.tuples(*(st.sampled_from(draw_labels).map(lambda label, at=at: Span(*at, label)) for at in p))
    )


@given(disjoint_spans("AB"), disjoint_spans("AB"))
def test_every_span_is_in_one_outcome(gold: tuple, predicted: tuple) -> None:
    found = outcomes(row(gold, predicted))
    assert sorted(map(repr, (one.gold for one in found if one.gold))) == sorted(map(repr, gold))
    assert sorted(map(repr, (one.predicted for one in found if one.predicted))) == sorted(map(repr, predicted))
    for one in found:
        assert one.kind in OUTCOMES
        assert (one.kind == CORRECT) == (one.gold == one.predicted)
        if one.gold and one.predicted:
            assert one.gold.start < one.predicted.end and one.predicted.start < one.gold.end
            assert (one.kind == TYPE) == (one.gold.label != one.predicted.label)


@given(st.lists(st.tuples(disjoint_spans("ABC"), disjoint_spans("ABC")), max_size=4))
def test_scores_by_type_are_counts(pairs: list) -> None:
    rows = [row(gold, predicted) for gold, predicted in pairs]
    counts: Counter = Counter()
    for gold, predicted in pairs:
        counts.update(("gold", span.label) for span in gold)
        counts.update(("predicted", span.label) for span in predicted)
        counts.update(("right", span.label) for span in set(gold) & set(predicted))
    scores = by_type(rows)
    assert {score.label for score in scores} == {label for _, label in counts}
    for score in scores:
        gold, predicted, right = (counts[name, score.label] for name in ("gold", "predicted", "right"))
        assert (score.gold, score.predicted) == (gold, predicted)
        assert (score.precision, score.recall) == (right / max(predicted, 1), right / max(gold, 1))
        assert score.f1 == 2 * right / (gold + predicted)
