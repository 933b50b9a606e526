from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.models.preprocessors.masked_lm import BertMaskedLMPreprocessor
from bert_tf.models.preprocessors.spans import BertSpanPreprocessor
from bert_tf.models.preprocessors.words import BertWordPreprocessor
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.preprocessing.text_presets import VOCABULARY

TOKENIZER = BertTokenizer(VOCABULARY)
SENTENCES, TAGS = [["the", "films"], ["a", "stories", "is", "fine"]], [["O", "B-X"], ["O", "O", "O", "B-X"]]
QUESTIONS, CONTEXTS = ["the film ?", "a story"], ["the films was fine .", "a dull story is good"]


@pytest.mark.parametrize("form", ["lists", "ragged", "padded"])
def test_labels_are_at_first_pieces(form: str) -> None:
    x: Any = SENTENCES
    y: Any = TAGS
    if form != "lists":
        x, y = tf.ragged.constant(SENTENCES), tf.ragged.constant(TAGS)
    if form == "padded":
        x, y = x.to_tensor(), y.to_tensor()
    preprocessor = BertWordPreprocessor(TOKENIZER, 9, "fixed", ("B-X", "O"))
    inputs, targets, weights = preprocessor(x, y, [1.0, 2.0])
    assert TOKENIZER.detokenize(inputs["token_ids"][0]) == "[CLS] the films [SEP]" + " [PAD]" * 4
    assert targets[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert weights[0].tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert weights[1].tolist() == [0, 2, 2, 2, 2, 0, 0, 0, 0]


def test_long_sentences_become_rows() -> None:
    rows = BertWordPreprocessor(TOKENIZER, 5).encode([["the"] * 7, ["a"]], [[0] * 6 + [1], [1]])
    assert len(rows) > 2 and rows.weights[""].sum() == 8 and (rows.targets[""] * rows.weights[""]).sum() == 2


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["the film"], [["O"]], "lists of words. Received: 'the film' in row 0. Split"),
        (SENTENCES, [["O", "O"], ["O"]], "label for each of the 4 words of row 1. Received: 1"),
        (SENTENCES, [["O", "O"]], "one list for each of 2 sentences. Received: 1"),
        (SENTENCES, [["O", "B-Y"], ["O"] * 4], "among B-X, O. Received: B-Y"),
    ],
)
def test_words_without_labels_are_refused(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BertWordPreprocessor(TOKENIZER, labels=("B-X", "O")).encode(x, y)


@pytest.mark.parametrize("y", [["films", "dull story"], (["films", "dull story"], [4, 2])], ids=["texts", "starts"])
def test_answers_become_token_positions(y: Any) -> None:
    inputs, targets = BertSpanPreprocessor(TOKENIZER, 24)((QUESTIONS, CONTEXTS), y)
    spans = [
        TOKENIZER.detokenize(ids[first : last + 1])
        for ids, first, last in zip(inputs["token_ids"], targets["start_logits"], targets["end_logits"], strict=True)
    ]
    assert spans == ["films", "dull story"]


def test_no_answer_and_wrong_answers() -> None:
    preprocessor = BertSpanPreprocessor(TOKENIZER, 24)
    preprocessor.adapt_labels(["films", None], None)
    assert preprocessor.no_answer and preprocessor.task_json(None)["task"] == "squad2"
    _, targets = preprocessor((QUESTIONS, CONTEXTS), ["films", None])
    assert targets["start_logits"][1] == targets["end_logits"][1] == 0
    with pytest.raises(ConfigError, match="in its context at its start. Received: 'book' in row 1"):
        preprocessor((QUESTIONS, CONTEXTS), ["films", "book"])
    with pytest.raises(ConfigError, match="at its start. Received: 'films' in row 0"):
        preprocessor((QUESTIONS, CONTEXTS), (["films", "a"], [3, 0]))


def test_windows_of_long_contexts() -> None:
    rows = BertSpanPreprocessor(TOKENIZER, 12, doc_stride=3).encode((["a"], ["good film is fine . " * 5]), ["fine"])
    assert len(rows) > 2 and set(rows.examples) == {0}


def test_masks_change_with_each_epoch_and_are_reproducible() -> None:
    preprocessor = BertMaskedLMPreprocessor(TOKENIZER, 16, masked_lm_prob=0.3)
    texts = ["the good film is fine . a dull story was bad"] * 4
    first, again, other = (preprocessor.batch_of(texts, [0] * 4, epoch=epoch) for epoch in (0, 0, 1))
    assert (first[0]["token_ids"] == again[0]["token_ids"]).all()
    assert (first[0]["mask_positions"] != other[0]["mask_positions"]).any()
    plain = preprocessor(texts)
    restored = first[0]["token_ids"].copy()
    rows, slots = np.nonzero(first[2])
    restored[rows, first[0]["mask_positions"][rows, slots]] = first[1][rows, slots]
    assert (restored == plain["token_ids"]).all() and first[2].sum() == 4 * 4


def test_mask_tokens_of_the_text_are_predicted() -> None:
    inputs = BertMaskedLMPreprocessor(TOKENIZER, 16)(["a [MASK] film [MASK]", "the [MASK]"])
    assert inputs["mask_positions"].tolist() == [[2, 4], [2, 0]]


@pytest.mark.parametrize(
    "preprocessor",
    [
        BertWordPreprocessor(TOKENIZER, 9, labels=("O", "X")),
        BertSpanPreprocessor(TOKENIZER, 30, 20, 10, True, padding="fixed", null_threshold=-1.5),
        BertMaskedLMPreprocessor(TOKENIZER, 20, 0.2, "whole_word", 7, truncation="only_first"),
    ],
    ids=lambda preprocessor: type(preprocessor).__name__,
)
def test_config_round_trip(preprocessor: Any) -> None:
    again = type(preprocessor).from_config(preprocessor.get_config())
    assert again.get_config() == preprocessor.get_config()
