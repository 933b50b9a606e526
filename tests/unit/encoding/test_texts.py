"""Rows of one or two texts match the original, windows cover longer texts, and predictions are means over windows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example as always
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, SINGLE_OUTPUT
from bert_tf.encoding import texts as texts_module
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample, text_rows, windows_of
from bert_tf.tasks.classify.base import NumberTask, TextTask
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.tasks.text_examples import VOCABULARY

TOKENIZER = BertTokenizer(VOCABULARY)
LETTERS = st.text("abcdefghij", min_size=1, max_size=30).map(list)


@dataclass(frozen=True)
class Labels(TextTask):
    read = score = write = read_answers = None
    name: ClassVar[str] = "labels"


@dataclass(frozen=True)
class Numbers(NumberTask):
    read = score = write = read_answers = None
    name: ClassVar[str] = "numbers"


Labels.__abstractmethods__ = Numbers.__abstractmethods__ = frozenset()


def example(*texts: str | list[str], label: str | None = None) -> TextExample:
    return TextExample("f: line 2", joined(*texts), label)


def joined(*texts: str | list[str]) -> tuple[str, ...]:
    return tuple(" ".join(text) for text in texts)


def tokens_of(rows: EncodedRows) -> list[list[str]]:
    return [TOKENIZER.tokens(rows.token_ids[a:b]) for a, b in itertools.pairwise(rows.row_splits.tolist())]


def original_row(texts: list[list[str]], length: int) -> list[str]:
    """Returns the row of run_classifier.py: `_truncate_seq_pair`, then [CLS] and [SEP]."""
    texts = [list(text) for text in texts]
    while sum(map(len, texts)) > length - 1 - len(texts):
        max(reversed(texts), key=len).pop()
    return ["[CLS]", *itertools.chain(*([*text, "[SEP]"] for text in texts))]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2).flatmap(lambda n: st.lists(st.lists(LETTERS, min_size=n, max_size=n), min_size=1, max_size=4)),
       st.integers(5, 24))  # fmt: skip
def test_rows_equal_those_of_the_original(texts: list[list[list[str]]], length: int) -> None:
    rows = text_rows([joined(*pair) for pair in texts], TOKENIZER, length)
    expected = [original_row(pair, length) for pair in texts]
    assert tokens_of(rows) == expected
    assert rows.examples.tolist() == list(range(len(texts)))
    inputs = rows.inputs(np.arange(len(texts)))
    for row, tokens in enumerate(expected):
        firsts = tokens.index("[SEP]") + 1
        assert inputs[SEGMENT_IDS][row].sum() == inputs[SEGMENT_IDS][row, firsts : len(tokens)].sum()
        assert inputs[SEGMENT_IDS][row, firsts : len(tokens)].all()
        assert inputs[PADDING_MASK][row].sum() == len(tokens)


def test_packing_in_parts_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [joined("abcdefghij"[: 1 + number % 10], "xyz") for number in range(23)]
    whole = [text_rows(texts, TOKENIZER, 9, windows) for windows in (False, True)]
    monkeypatch.setattr(texts_module, "_PART", 5)
    for windows, rows in zip((False, True), whole, strict=True):
        parts = text_rows(texts, TOKENIZER, 9, windows)
        assert (parts.fingerprint, parts.examples.tolist()) == (rows.fingerprint, rows.examples.tolist())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=2), st.integers(7, 24))
@always([8, 8], 18)
def test_windows_cover_the_longer_text_and_overlap(counts: list[int], length: int) -> None:
    # The tokens of a text are their positions.
    room = length - 1 - len(counts)
    longer = int(np.argmax(counts))
    if sum(counts) <= room:
        return
    segments, of = windows_of([tf.RaggedTensor.from_row_lengths(np.arange(n), [n]) for n in counts], room)
    starts = np.array([[row[0] if len(row) else 0 for row in segment.to_list()] for segment in segments])
    stops = starts + np.array([segment.row_lengths() for segment in segments])
    windows = list(zip(starts.T, stops.T, strict=True))
    assert of.numpy().tolist() == [0] * len(windows)
    firsts, lasts = starts[longer].tolist(), stops[longer].tolist()
    width = lasts[0] - firsts[0]
    assert firsts[0] == 0 and lasts[-1] == counts[longer]
    assert all(last - first == width for first, last in zip(firsts, lasts, strict=True))
    steps = np.diff(firsts)
    assert width == room - (min(counts[1 - longer], room // 2) if len(counts) == 2 else 0)
    # If two texts have similar lengths, one may be complete and the other truncated to half of the row.
    assert (len(windows) > 1) == (counts[longer] > width)
    assert (steps > 0).all() and (steps <= max(1, 0.75 * width)).all()
    for starts, stops in windows:
        assert (stops - starts).sum() == room
        if len(counts) == 2:
            assert (starts[1 - longer], stops[1 - longer]) == (0, min(counts[1 - longer], room // 2))


def test_windows_of_texts() -> None:
    rows = text_rows([joined("ab"), joined("abcdefghij"), joined("abcdef")], TOKENIZER, 8, windows=True)
    assert rows.examples.tolist() == [0, 1, 1, 2]
    expected = ["ab", "abcdef", "efghij", "abcdef"]
    assert tokens_of(rows) == [["[CLS]", *text, "[SEP]"] for text in expected]


def test_every_window_of_a_pair_contains_the_shorter_text() -> None:
    rows = text_rows([joined("abcdefghi", "xy"), joined("a", "uvwxyz")], TOKENIZER, 9, windows=True)
    assert tokens_of(rows) == [
        *(["[CLS]", *text, "[SEP]", "x", "y", "[SEP]"] for text in ("abcd", "cdef", "fghi")),
        *(["[CLS]", "a", "[SEP]", *text, "[SEP]"] for text in ("uvwxy", "vwxyz")),
    ]


def test_every_window_has_the_target_and_weight_of_its_text() -> None:
    class Weighted(Labels):
        def targets(self, examples):
            targets, _ = super().targets(examples)
            return targets, np.array([0.5, 2.0], np.float32)[targets]

    examples = [example("abcdefghij", label="y"), example("a", label="x")]
    rows = Weighted(labels=("x", "y"), windows=True).encode(examples, TOKENIZER, 8)
    assert rows.targets[SINGLE_OUTPUT].tolist() == [1, 1, 0]
    assert rows.weights[SINGLE_OUTPUT].tolist() == [2.0, 2.0, 0.5]
    plain = Labels(labels=("x", "y")).encode(examples, TOKENIZER, 8)
    assert (plain.targets[SINGLE_OUTPUT].tolist(), plain.weights) == ([1, 0], {})
    assert Labels(windows=True).encode(examples, TOKENIZER, 8, labelled=False).targets == {}


def test_prediction_is_the_mean_probability_of_the_windows() -> None:
    examples = [example("abcdefghij"), example("a")]
    task = Labels(labels=("x", "y"), windows=True)
    rows = task.encode(examples, TOKENIZER, 8, labelled=False)
    logits = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], np.float32))
    first, second = task.answers(examples, rows, {SINGLE_OUTPUT: logits})
    assert (first.label, second.label) == ("x", "y")
    np.testing.assert_allclose(first.probabilities, [0.55, 0.45], rtol=1e-6)
    np.testing.assert_allclose(second.probabilities, [0.4, 0.6], rtol=1e-6)
    numbers = Numbers(windows=True).answers(examples, rows, {SINGLE_OUTPUT: np.float32([[1], [4], [7]])})
    assert numbers == [NumberAnswer(2.5), NumberAnswer(7.0)]


def test_labels_are_the_sorted_training_labels() -> None:
    examples = [example("a", label=label) for label in "cab"]
    assert Labels().fit_labels(examples).labels == ("a", "b", "c")
    assert Labels(labels=("z", "a")).fit_labels(examples).labels == ("z", "a")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        (Labels(), [], "f.tsv: no examples"),
        (Labels(), ["x", "x"], "f.tsv: at least two labels are needed. Received: x"),
        (Numbers(), ["1.5", "1.50"], "f.tsv: at least two different numbers are needed. Received: 1.5"),
    ],
)
def test_useless_training_examples_are_refused(task, labels: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task.validate_examples([example("a", label=label) for label in labels], "f.tsv")
    task.validate_examples([example("a", label=label) for label in "12"], "f.tsv")


def test_description_round_trip() -> None:
    task = Labels(("a", "b"), "mean", True, labels=("x", "y"))
    description = task.description()
    assert description["text_columns"] == 2 and description["labels"] == ("x", "y")
    assert Labels.from_description(description | {"labels": ["x", "y"], "text_names": ["a", "b"]}) == task
    assert (task.needs_pooler, Labels().needs_pooler) == (False, True)


def test_score_details_contain_predictions_and_labels() -> None:
    scored = Labels(("a",), labels=("x", "y")).score_details([example("q", label="y")], [LabelAnswer("x", (0.7, 0.3))])
    (row,) = scored.rows
    assert (row.place, row.texts, row.gold, row.probabilities) == ("f: line 2", (("a", "q"),), "y", (0.7, 0.3))
    (number,) = Numbers(("a",)).score_details([example("q", label="2.5")], [NumberAnswer(2.0)]).rows
    assert (number.gold, number.predicted) == (2.5, 2.0)
