"""Rows become batches whose order is a function of seed and step, and padding that changes nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bert_tf.data.schema import PADDING_MASK, TOKEN_IDS
from bert_tf.tasks.classification import ClassificationData, encode
from bert_tf.tasks.labelled_text import LabelledText
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghij"))


def rows(count: int) -> ClassificationData:
    ids = np.arange(count, dtype=np.int32)
    return ClassificationData({TOKEN_IDS: ids[:, None], PADDING_MASK: np.ones((count, 1), np.int32)}, ids)


def labels_of(dataset, steps: int) -> list[list[int]]:
    return [labels.numpy().tolist() for _, labels in dataset.take(steps)]


@pytest.mark.parametrize("start", [0, 1, 3, 4, 9])
def test_a_later_start_gives_the_rest_of_the_same_order(start: int) -> None:
    data = rows(11)
    whole = labels_of(data.batches(3, seed=5), 12)
    assert labels_of(data.batches(3, seed=5, start_step=start), 12 - start) == whole[start:]


def test_every_epoch_has_every_row_in_another_order() -> None:
    batches = labels_of(rows(12).batches(4, seed=1), 6)
    epochs = [list(itertools.chain(*part)) for part in (batches[:3], batches[3:])]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0] != epochs[1]
    assert labels_of(rows(12).batches(4, seed=2), 3) != batches[:3]


def test_inputs_stay_with_their_labels() -> None:
    for inputs, labels in rows(10).batches(4, seed=3).take(5):
        np.testing.assert_array_equal(inputs[TOKEN_IDS].numpy()[:, 0], labels.numpy())


def test_one_pass_keeps_the_order_and_the_last_rows() -> None:
    batches = [labels.numpy().tolist() for _, labels in rows(5).in_order(2)]
    assert batches == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((("a b", "c"),), [["[CLS]", "a", "b", "[SEP]"], ["[CLS]", "c", "[SEP]"]]),
        (
            (("a b", "c"), ("d", "e f")),
            [["[CLS]", "a", "b", "[SEP]", "d", "[SEP]"], ["[CLS]", "c", "[SEP]", "e", "f", "[SEP]"]]),
        ((("a b c d e f g h i j", "a"),), [["[CLS]", *"abcdef", "[SEP]"], ["[CLS]", "a", "[SEP]"]]),
    ],
    ids=["single", "pair", "cut"],
)  # fmt: skip
def test_encoding(columns: tuple, expected: list) -> None:
    tokenizer = BertTokenizer(VOCABULARY)
    data = encode(LabelledText(columns, ("x", "y")), [0, 1], tokenizer, max_sequence_length=8)
    for ids, mask, tokens in zip(data.inputs[TOKEN_IDS], data.inputs[PADDING_MASK], expected, strict=True):
        assert tokenizer.tokens(ids[mask == 1]) == tokens
        assert set(ids[mask == 0]) <= {VOCABULARY.pad_id}
    assert data.inputs[TOKEN_IDS].shape == (2, 8)
    assert data.fingerprint != encode(LabelledText(columns, ("x", "y")), [1, 0], tokenizer, 8).fingerprint
