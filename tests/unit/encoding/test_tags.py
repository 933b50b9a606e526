"""Tags are decoded as in conlleval, in every scheme, and metrics match conlleval and seqeval to the last digit."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_tf.encoding.tags import SCHEMES, Entity, entities, entity_scores, is_tag, scheme_of, tags_of
from tests.support.paths import TESTDATA
from tests.support.tasks.conlleval_rules import figures

# Results of seqeval, see `make_seqeval.py` in the same directory.
SEQEVAL = TESTDATA / "seqeval.json"
TYPES = ("PER", "LOC", "creative-work")
IOB = ("O", *(f"{letter}-{kind}" for kind in TYPES for letter in "BI"))
ALL = (*IOB, *(f"{letter}-{kind}" for kind in TYPES for letter in "ES"))

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sentences(tags: tuple[str, ...]) -> st.SearchStrategy:
    """Returns pairs of gold and predicted tags of some sentences, most of which break every scheme."""
    pairs = st.lists(st.tuples(st.sampled_from(tags), st.sampled_from(tags)), min_size=1, max_size=8)
    return st.lists(pairs, min_size=1, max_size=4).map(
        lambda found: tuple([[pair[side] for pair in sentence] for sentence in found] for side in (0, 1))
    )


@UNHURRIED
@given(sentences(IOB))
def test_metrics_equal_those_of_conlleval(both):
    gold, predicted = both
    lines = []
    for one, other in zip(gold, predicted, strict=True):
        lines += [f"word {right} {found}" for right, found in zip(one, other, strict=True)] + [""]
    scores = entity_scores(gold, predicted)
    assert {name: scores[name] for name in ("precision", "recall", "f1")} == pytest.approx(figures(lines), abs=1e-15)


def test_metrics_and_entities_equal_those_of_seqeval():
    cases = json.loads(SEQEVAL.read_text("utf-8"))
    assert len(cases) == 150
    for case in cases:
        assert entity_scores(case["gold"], case["predicted"]) == pytest.approx(case["figures"], abs=1e-15), case
        for tags, expected in zip(case["gold"], case["entities"], strict=True):
            assert [[kind, start, end - 1] for kind, start, end in entities(tags)] == expected, tags


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-A I-A B-A", [("A", 0, 2), ("A", 2, 3)]),
        ("I-A I-B", [("A", 0, 1), ("B", 1, 2)]),
        ("B-A I-B I-B O I-B", [("A", 0, 1), ("B", 1, 3), ("B", 4, 5)]),
        ("B-A E-A S-A S-A", [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]),
        ("E-A I-A", [("A", 0, 1), ("A", 1, 2)]),
        ("O O", []),
    ],
)
def test_entities(tags, expected):
    assert entities(tags.split()) == expected


@UNHURRIED
@given(st.lists(st.sampled_from(ALL)), st.sampled_from(["IOB1", "IOB2", "IOBES"]))
def test_every_scheme_encodes_the_same_entities(tags, scheme):
    found = entities(tags)
    written = tags_of(found, len(tags), scheme)
    assert entities(written) == found
    if found:
        assert scheme_of([(written, ["f"] * len(tags))]) in (scheme, "IO" if scheme == "IOB1" else scheme)


def test_schemes():
    found = [Entity("A", 0, 3), Entity("A", 3, 4), Entity("B", 4, 5), Entity("A", 6, 8)]
    written = {scheme: " ".join(tags_of(found, 8, scheme)) for scheme in SCHEMES}
    assert written == {
        "IO": "I-A I-A I-A I-A I-B O I-A I-A",
        "IOB1": "I-A I-A I-A B-A I-B O I-A I-A",
        "IOB2": "B-A I-A I-A B-A B-B O B-A I-A",
        "IOBES": "B-A I-A E-A S-A S-B O B-A E-A",
    }
    for scheme, tags in written.items():
        assert scheme_of([(tags.split(), ["f"] * 8)]) == scheme


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("O I-A O B-A", r"line 1: .*Received: 'I-A' after 'O' \(IOB1\), but 'B-A' after 'O' \(IOB2\) at line 3"),
        ("B-A I-B", r"line 1: .*'I-B' after 'B-A' \(IOB1\), but 'B-A' after 'O' \(IOB2\) at line 0"),
        ("S-A I-A E-A", r"line 1: .*'I-A' after 'S-A' \(invalid in IOBES\), but 'E-A' after 'I-A' \(IOBES\) at line 2"),
        ("B-A E-A B-A", r"line 2: .*'O' after 'B-A' \(invalid in IOBES\), but 'E-A' after 'B-A' \(IOBES\) at line 1"),
        ("B-A E-B", r"line 1: .*'E-B' after 'B-A' \(invalid in IOBES\)"),
    ],
)
def test_contradictions(tags, message):
    tags = tags.split()
    with pytest.raises(ValueError, match=message):
        scheme_of([(tags, [f"line {number}" for number in range(len(tags))])])


@pytest.mark.parametrize("text", ["B", "I-", "B-", "b-PER", "o", "", "PER", "BI-PER", "L-PER", "OO"])
def test_invalid_tags_are_refused(text):
    assert not is_tag(text)
