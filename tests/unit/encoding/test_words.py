"""Every word is predicted once, with as much context as fits."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.encoding.batches import training_batches
from bert_tf.encoding.inference import outputs_of
from bert_tf.encoding.words import Sentence, WordWindow, windows, word_rows
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

# A word of n letters has n pieces.
LETTERS = "abcdefgh"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)))


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer(VOCABULARY)


def sentences_of(*texts: str, together: bool = False) -> list[Sentence]:
    words = [tuple(text.split(" ")) for text in texts]
    document = tuple(words)
    return [
        Sentence(
            Path("f"), 1, own, (), own, " ", document=document if together else (own,), number=number if together else 0
        )
        for number, own in enumerate(words)
    ]


def shown(tokenizer: BertTokenizer, rows) -> list[str]:
    """Returns the pieces of each row, those with weight in capitals."""
    found = []
    for begin, end in zip(rows.row_splits[:-1], rows.row_splits[1:], strict=True):
        pieces = tokenizer.tokens(rows.token_ids[begin:end])
        weights = rows.weights[""][begin:end]
        assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
        pairs = zip(pieces, weights, strict=True)
        found.append(" ".join(piece.upper() if weight else piece for piece, weight in list(pairs)[1:-1]))
    return found


@pytest.mark.parametrize(
    ("texts", "length", "expected"),
    [
        (["ab c", "d"], 8, ["A ##b C", "D"]),
        (["a b c d e f g h"], 6, ["A B C d", "c D E f", "e F G H"]),
        (["a b c d e f"], 6, ["A B C d", "c D E F"]),
        (["abcdefgh a"], 6, ["A ##b ##c ##d", "A"]),
        (["a abcdefgh b"], 6, ["A", "A ##b ##c ##d", "B"]),
        (["a b c"], 3, ["A", "B", "C"]),
        (["a \x00 b", "\x00"], 8, ["A [UNK] B", "[UNK]"]),
        (["a  b"], 8, ["A [UNK] B"]),
        (["a-b c"], 8, ["A [UNK] b C"]),
    ],
)
def test_rows_of_sentences(tokenizer, texts, length, expected):
    rows = word_rows(sentences_of(*texts), tokenizer, length)
    assert shown(tokenizer, rows) == expected
    assert rows.longest <= length
    assert int(rows.weights[""].sum()) == sum(len(text.split(" ")) for text in texts)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (5, ["A B c", "b C d", "D E F", "f G h", "f g H"]),
        (6, ["A B c d", "b C d e", "D E F g", "e f G h", "e f g H"]),
        (8, ["A B c d e f", "a b C d e f", "c D E F g h", "c d e f G h", "c d e f g H"]),
        (20, ["A B c d e f g h", "a b C d e f g h", "a b c D E F g h", "a b c d e f G h", "a b c d e f g H"]),
    ],
)
def test_rows_with_their_document(tokenizer, length, expected):
    rows = word_rows(sentences_of("a b", "c", "d e f", "g", "h", together=True), tokenizer, length)
    assert shown(tokenizer, rows) == expected


@pytest.mark.parametrize("longest", [1, 4])
@pytest.mark.parametrize("part", [slice(0, 2), slice(2, 5), slice(4, 9), slice(8, 9), slice(0, 1)])
def test_part_of_a_document_gives_the_same_rows_as_the_document(tokenizer, part, longest):
    random = np.random.default_rng(3)
    sizes = [random.integers(1, longest, random.integers(1, 6), endpoint=True) for _ in range(9)]
    texts = [" ".join("a" * int(size) for size in of_one) for of_one in sizes]
    document = sentences_of(*texts, together=True)
    whole = word_rows(document, tokenizer, 14)
    wanted = np.arange(len(document))[part]
    pairs = zip(shown(tokenizer, whole), whole.examples, strict=True)
    assert shown(tokenizer, word_rows(document[part], tokenizer, 14)) == [row for row, of in pairs if of in wanted]


def test_too_short_max_sequence_length_is_refused(tokenizer):
    with pytest.raises(ValueError, match="`max_sequence_length` must be at least 3 for words. Received: 2"):
        word_rows(sentences_of("a"), tokenizer, 2)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.data())
def test_windows(sizes, data):
    capacity = data.draw(st.integers(max(sizes), 40))
    first, last = sorted(data.draw(st.lists(st.integers(0, len(sizes)), min_size=2, max_size=2, unique=True)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    found = list(windows(offsets, first, last, 0, len(sizes), capacity))
    predicted = [word for window in found for word in range(window.first, window.last)]
    assert predicted == list(range(first, last))
    for window in found:
        assert 0 <= window.start <= window.first < window.last <= window.end <= len(sizes)
        assert offsets[window.end] - offsets[window.start] <= capacity
    if len(found) == 1:
        (window,) = found
        assert is_full(window, offsets, capacity)
        left, right = offsets[first] - offsets[window.start], offsets[window.end] - offsets[last]
        # The sides differ by at most one word, unless one side has no more words.
        assert left <= right + max(sizes) or window.end == len(sizes) or max(sizes) > capacity // 2 - left
        assert right <= left + 2 * max(sizes) or window.start == 0
    for one, other in itertools.pairwise(found):
        # A word is as far from the nearer edge of its row as in the next or previous row, or at most one word nearer.
        for word in range(one.first, one.last):
            assert edge(one, word, offsets, first, last) >= edge(other, word, offsets, first, last) - max(sizes)
        for word in range(other.first, other.last):
            assert edge(other, word, offsets, first, last) >= edge(one, word, offsets, first, last) - max(sizes)


def is_full(window: WordWindow, offsets: np.ndarray, capacity: int) -> bool:
    """Returns True if no further word fits on either side."""
    used = offsets[window.end] - offsets[window.start]
    left = window.start == 0 or used + offsets[window.start] - offsets[window.start - 1] > capacity
    last = len(offsets) - 1
    return bool(left and (window.end == last or used + offsets[window.end + 1] - offsets[window.end] > capacity))


def edge(window: WordWindow, word: int, offsets: np.ndarray, first: int, last: int) -> float:
    """Returns the pieces to the nearer edge of a row that cuts the sentence; below 0 if the word is not in the row."""
    if not window.start <= word < window.end:
        return -1.0
    left = np.inf if window.start == first else offsets[word] - offsets[window.start]
    right = np.inf if window.end == last else offsets[window.end] - offsets[word + 1]
    return float(min(left, right))


def test_targets_are_at_the_first_pieces_of_words(tokenizer):
    sentences = sentences_of("ab c", "d", "a b c d e f g h")
    rows = word_rows(sentences, tokenizer, 6, np.arange(1, 12, dtype=np.int32))
    assert rows.examples.tolist() == [0, 1, 2, 2, 2]
    inputs, targets, weights = rows.batch(np.array([0, 3, 1]))
    assert inputs[TOKEN_IDS].shape == targets[""].shape == weights[""].shape == (3, 6)
    assert not inputs[SEGMENT_IDS].any()
    assert targets[""].tolist() == [[0, 1, 0, 2, 0, 0], [0, 0, 7, 8, 0, 0], [0, 3, 0, 0, 0, 0]]
    np.testing.assert_array_equal(weights[""], targets[""] > 0)
    assert not (weights[""] * (1 - inputs[PADDING_MASK])).any()
    ((_, targets, weights),) = training_batches(rows, 5, seed=0).take(1)
    assert sorted(targets.numpy()[weights.numpy() > 0]) == list(range(1, 12))


def test_outputs_are_returned_by_token(tokenizer):
    rows = word_rows(sentences_of("a", "ab c d e f g h", "b c", "abc d e"), tokenizer, 7)
    config = BertConfig(vocabulary_size=len(VOCABULARY), hidden_dim=4, num_layers=1, num_heads=1, intermediate_dim=4)
    outputs = outputs_of(lambda inputs: inputs[TOKEN_IDS][..., None] * [1.0, 2.0], rows, config, by_token=True)
    np.testing.assert_array_equal(outputs[""], rows.token_ids[:, None] * [1.0, 2.0])
