"""Tests the character offsets of word pieces in the original text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings

from bert_tf.text.build_table import MOVABLE, _flags
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.text import bert_oracle
from tests.support.text.samples import conformance_texts, small_vocabulary, texts

MODES = {"uncased": True, "cased": False}


@pytest.fixture(scope="module", params=MODES.values(), ids=MODES.keys())
def tokenizer(request) -> BertTokenizer:
    return BertTokenizer(small_vocabulary(), request.param)


@pytest.fixture(scope="module")
def uncased() -> BertTokenizer:
    return BertTokenizer(small_vocabulary())


def places(tokenizer: BertTokenizer, text: str) -> list[tuple[str, str]]:
    ids, starts, limits = tokenizer.tokenize_with_offsets([text])
    return [(piece, text[a:b]) for piece, a, b in zip(tokenizer.tokens(ids.values), starts, limits, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The unaffable", [("the", "The"), ("un", "un"), ("##aff", "aff"), ("##able", "able")]),
        ("  Cafe\u0301!", [("cafe", "Cafe\u0301"), ("!", "!")]),
        ("café\u0301\u0323 x", [("cafe", "café\u0301\u0323"), ("x", "x")]),
        ("un\u0301aff\u0301able", [("un", "un\u0301"), ("##aff", "aff\u0301"), ("##able", "able")]),
        ("\u0301the", [("the", "the")]),
        ("ß", [("ß", "ß")]),
        ("İ!", [("i", "İ"), ("!", "!")]),
        ("中文", [("中", "中"), ("文", "文")]),
        ("the中", [("the", "the"), ("中", "中")]),
        ("th\u200be\u200b the", [("the", "th\u200be"), ("the", "the")]),
        ("\ufeffthe \0\0un", [("the", "the"), ("un", "un")]),
        ("ＵＬ", [("ｕ", "Ｕ"), ("##ｌ", "Ｌ")]),
        ("ﬁ ﬁ", [("ﬁ", "ﬁ"), ("ﬁ", "ﬁ")]),
        ("𝐀 the𝐀", [("𝐀", "𝐀"), ("the", "the"), ("##𝐀", "𝐀")]),
        ("a\u2028b\u3000c", [("a", "a"), ("b", "b"), ("c", "c")]),
        ("é 가", [("e", "é"), ("ᄀ", "가"), ("##ᅡ", "가")]),
        # Unknown words, with and without known first pieces, take the whole word.
        ("the unq\u0301, é", [("the", "the"), ("[UNK]", "unq\u0301"), (",", ","), ("e", "é")]),
        ("the unq the", [("the", "the"), ("[UNK]", "unq"), ("the", "the")]),
        ("é " + "a" * 201 + ".", [("e", "é"), ("[UNK]", "a" * 201), (".", ".")]),
        ("a" * 201 + ".", [("[UNK]", "a" * 201), (".", ".")]),
        ("ΑΣ", [("α", "Α"), ("##ς", "Σ")]),
    ],
)
def test_uncased_offsets(text, expected, uncased):
    assert places(uncased, text) == expected


def test_combining_marks_of_the_next_text_are_excluded(uncased):
    ids, starts, limits = uncased.tokenize_with_offsets(["é", "\u0301\u0301", "\u0301a\u0301"])
    assert ids.row_splits.tolist() == [0, 1, 1, 2]
    assert (starts.tolist(), limits.tolist()) == ([0, 1], [1, 3])


def test_kept_accent_is_a_piece():
    tokenizer = BertTokenizer(small_vocabulary(), lowercase=False)
    assert places(tokenizer, "e\u0301 a") == [("e", "e"), ("##\u0301", "\u0301"), ("a", "a")]


def check(tokenizer: BertTokenizer, texts: list[str]) -> None:
    ids, starts, limits = tokenizer.tokenize_with_offsets(texts)
    tokens = tokenizer.tokens(ids.values)
    for text, (first, last) in zip(texts, itertools.pairwise(ids.row_splits), strict=True):
        check_one(tokenizer, text, tokens[first:last], starts[first:last], limits[first:last])


def check_one(tokenizer: BertTokenizer, text: str, tokens: list[str], starts: np.ndarray, limits: np.ndarray) -> None:
    assert (starts[1:] >= starts[:-1]).all(), text
    assert (limits[1:] >= limits[:-1]).all(), text
    assert (starts >= 0).all() and (starts < limits).all() and (limits <= len(text)).all(), text
    for token, start, limit in zip(tokens, starts, limits, strict=True):
        source = text[start:limit]
        words = bert_oracle.words(source, tokenizer.lowercase)
        if token == "[UNK]":
            assert len(words) == 1, text
            continue
        piece = token.removeprefix("##") if token != "##" else token
        # A Hangul syllable or a note is decomposed, so a piece may be only a part of it.
        apart = any(len("".join(bert_oracle.words(char, tokenizer.lowercase))) > 1 for char in source)
        assert words == [piece] or (apart and piece in words[0]), text


def has_context(text: str) -> bool:
    return "Σ" in text or any(_flags(ord(char)) & MOVABLE for char in text)


def test_offsets_in_conformance_texts(tokenizer):
    texts = [text for text in conformance_texts() if not has_context(text)]
    assert len(texts) > 140
    check(tokenizer, texts)


@settings(max_examples=150, deadline=None)
@given(texts=texts())
def test_offsets_in_random_texts(tokenizer, texts):
    text = " ".join(texts)
    assume(not has_context(text))
    check(tokenizer, [text])
