from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.reports.text import MOST, NOTHING, Excerpt, cut, is_shown, named, shown, spread, windows, worst

ANY = st.text(alphabet=st.characters(), max_size=60)


@given(ANY)
def test_shown_text_keeps_offsets_and_is_valid_unicode(text: str) -> None:
    assert len(shown(text)) == len(text)
    shown(text).encode()
    assert all(character >= " " or character in "\t\n" for character in shown(text))
    assert len(cut(text, 20)) <= 22


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("a\x00b\x7f\ud800", 9, "a␀b␡\ufffd"),
        ("one two three", 13, "one two three"),
        ("one two three", 9, "one two …"),
        ("one_two_three", 9, "one_two_t…"),
    ],
)
def test_cuts(text: str, most: int, expected: str) -> None:
    assert cut(text, most) == expected


@pytest.mark.parametrize(("name", "expected"), [("", NOTHING), ("\u202e ", "U+202E U+0020"), ("neutral", "neutral")])
def test_names_are_printable(name: str, expected: str) -> None:
    assert named(name, 40) == expected


def spans_of(length: int):
    places = st.tuples(st.integers(0, length), st.integers(0, length))
    return st.lists(places.map(lambda pair: (min(pair), max(pair))), max_size=6)


@settings(deadline=None, max_examples=40)
@given(st.data(), st.text(alphabet="ab \n", min_size=900, max_size=6000))
def test_windows_keep_the_ends_of_spans_and_stay_small(data, text: str) -> None:
    spans = data.draw(spans_of(len(text)))
    found = windows(text, spans)
    assert all(0 <= window.start <= window.end <= len(text) for window in found)
    assert all(before.end < after.start for before, after in itertools.pairwise(found))
    assert sum(window.end - window.start for window in found) <= MOST
    if spans:
        assert is_shown(*spans[0], found)
    if len(spans) <= 2:
        assert all(is_shown(*span, found) for span in spans)


def test_short_text_is_shown_completely_and_long_text_from_its_beginning() -> None:
    assert windows("ab " * 100, [(3, 5)]) == [Excerpt(0, 300)]
    assert windows("ab " * 1000, []) == [Excerpt(0, 700 - 700 % 3)]
    (window,) = windows("ab " * 1000, [(1500, 1502)])
    assert window.start in range(1300, 1341) and window.end in range(1662, 1700)
    assert not is_shown(0, 2, [window])


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 20))
def test_worst_rows_are_selected(values: list[int], count: int) -> None:
    rows = list(enumerate(values))
    chosen = worst(rows, lambda row: row[1], count)
    assert [value for _, value in chosen] == sorted(values, reverse=True)[:count]
    assert len(set(chosen)) == len(chosen)


def test_ties_are_sampled_evenly() -> None:
    rows = [(number, 1) for number in range(100)] + [(100, 5), (101, 0)]
    assert [number for number, _ in worst(rows, lambda row: row[1], 5)] == [100, 12, 37, 62, 87]
    assert spread([1, 2], 3) == [1, 2]
