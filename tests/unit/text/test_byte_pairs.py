"""Texts of a byte-level BPE: ids of `tokenizers`, offsets, special tokens in texts, files."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bert_tf.config import ConfigError
from bert_tf.text.byte_pair_vocabulary import byte_pair_vocabulary, load_byte_pairs
from bert_tf.text.byte_pairs import BytePairTokenizer, tokenizer_from_config, tokenizer_of
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import save_vocabulary
from tests.support.text.byte_pair_samples import SENTENCES, tokenizer_json

VOCABULARY = byte_pair_vocabulary(tokenizer_json())
TOKENIZER = BytePairTokenizer(VOCABULARY)
PEER = Tokenizer.from_str(tokenizer_json())
TEXTS = [*SENTENCES, "", " ", "  two  blanks\t\tand a tab", "e\u0301 é 😀", "\x00\u200b"]


def rows(ids) -> list[list[int]]:
    return [part.tolist() for part in np.split(ids.values, ids.row_splits[1:-1])]


@given(st.lists(st.one_of(st.sampled_from(TEXTS), st.text(st.characters(exclude_categories=("Cs",)))), max_size=4))
@settings(max_examples=80, deadline=None)
def test_ids_are_those_of_the_library(texts):
    expected = [PEER.encode(text, add_special_tokens=False).ids for text in texts]
    assert rows(TOKENIZER.tokenize(texts)) == (expected or [[]])
    assert TOKENIZER(texts).to_list() == expected
    graph = tf.function(TOKENIZER.ids, input_signature=[tf.TensorSpec([None], tf.string)])
    assert graph(tf.constant(texts, tf.string, [len(texts)])).to_list() == expected


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
@settings(max_examples=80, deadline=None)
def test_offsets_cover_the_text_without_blanks_at_their_start(text):
    ids, starts, limits = TOKENIZER.tokenize_with_offsets([text])
    pieces = TOKENIZER.pieces(tf.constant([text]))
    assert len(starts) == len(limits) == len(ids.values)
    assert [pieces.starts.to_list(), pieces.limits.to_list()] == [[starts.tolist()], [limits.tolist()]]
    covered = set()
    for start, limit in zip(starts.tolist(), limits.tolist(), strict=True):
        assert 0 <= start <= limit <= len(text)
        assert text[start:limit] == text[start:limit].lstrip()
        covered |= set(range(start, limit))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x  cafe\u0301 noir", ["x", "cafe\u0301", "noir"]),
        ("\tab \n cd  ", ["ab", "cd"]),
        ("   ", []),
    ],
)
def test_offsets_of_accents_and_blanks(text, words):
    """The characters between the first and the last token of a word are the word; a token of blanks has none."""
    _, starts, limits = TOKENIZER.tokenize_with_offsets([text])
    visible = [(start, limit) for start, limit in zip(starts.tolist(), limits.tolist(), strict=True) if start < limit]
    for word in words:
        begin = text.index(word)
        assert begin in {start for start, _ in visible} and begin + len(word) in {limit for _, limit in visible}
    assert not any(text[start].isspace() or text[limit - 1].isspace() for start, limit in visible)
    assert bool(visible) == bool(words)


def test_words_are_those_after_a_blank():
    words = ["The", "film", "映画"]
    assert rows(TOKENIZER.tokenize_words(words)) == [
        PEER.encode(f" {word}", add_special_tokens=False).ids for word in words
    ]


def test_special_tokens_in_a_text_are_text():
    text = "a [SEP] b [MASK] [CLS]"
    (plain,) = rows(TOKENIZER.tokenize([text]))
    assert not set(plain) & set(VOCABULARY.special_ids)
    assert TOKENIZER.detokenize(plain) == text
    (masked,) = TOKENIZER.ids(tf.constant([text]), keep_mask_token=True).to_list()
    assert [token for token in masked if token in VOCABULARY.special_ids] == [VOCABULARY.mask_id]


def test_ids_become_text():
    text = "Über die Brücke, 映画 for 😀"
    (ids,) = rows(TOKENIZER.tokenize([text]))
    assert TOKENIZER.detokenize(ids) == text
    assert "".join(TOKENIZER.tokens(ids[:4])) in text
    assert TOKENIZER.tokens([VOCABULARY.cls_id]) == ["[CLS]"]
    with pytest.raises(ValueError, match=r"ids must be in \[0, \d+\)"):
        TOKENIZER.tokens([len(VOCABULARY)])


@pytest.mark.parametrize("texts", ["text", [b"bytes"], [1]])
def test_texts_must_be_strings(texts):
    with pytest.raises(ValueError, match="`texts` must"):
        TOKENIZER.tokenize(texts)


def test_dropout_of_merges_is_for_training():
    content = json.loads(tokenizer_json())
    content["model"]["dropout"] = 0.5
    other = BytePairTokenizer(byte_pair_vocabulary(json.dumps(content)))
    assert rows(other.tokenize(SENTENCES)) == rows(TOKENIZER.tokenize(SENTENCES))


def test_settings_of_calls_do_not_change_the_ids():
    """A file may hold truncation and padding of the program that wrote it."""
    peer = Tokenizer.from_str(tokenizer_json())
    peer.enable_truncation(3)
    peer.enable_padding(length=9)
    other = BytePairTokenizer(byte_pair_vocabulary(peer.to_str()))
    assert rows(other.tokenize(SENTENCES)) == rows(TOKENIZER.tokenize(SENTENCES))


def test_a_vocabulary_is_padded_saved_and_read(tmp_path: Path):
    padded = VOCABULARY.padded(512)
    assert len(padded) == 512 and padded.without_padding() == VOCABULARY
    assert padded.fingerprint == VOCABULARY.fingerprint
    save_vocabulary(padded, tmp_path / padded.file_name)
    assert (tmp_path / "tokenizer.json").read_text() == tokenizer_json()
    assert load_byte_pairs(tmp_path / "tokenizer.json").padded(512) == padded


def test_a_tokenizer_is_copied():
    padded = tokenizer_of(VOCABULARY.padded(512), lowercase=False)
    for other in (
        copy.deepcopy(padded),
        pickle.loads(pickle.dumps(padded)),
        tokenizer_from_config(padded.get_config()),
    ):
        assert other.vocabulary == padded.vocabulary
        assert rows(other.tokenize(SENTENCES)) == rows(TOKENIZER.tokenize(SENTENCES))


def test_the_tokenizer_of_word_pieces_refuses_it():
    with pytest.raises(ConfigError, match=r"that of a tokenizer.json. Use `bert_tf.tokenizer_of"):
        BertTokenizer(VOCABULARY)


def _around(token: str) -> dict:
    """A processor that puts a token before and after a text."""
    place = {"SpecialToken": {"id": token, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    ids = {token: {"id": token, "ids": [VOCABULARY.id_of(token)], "tokens": [token]}}
    return {"type": "TemplateProcessing", "single": [place, text, place], "pair": [text, place], "special_tokens": ids}


def _without(content: dict, token: str) -> dict:
    """The special token under another name."""
    for added in content["added_tokens"]:
        if added["content"] == token:
            added["content"] = "<other>"
    return content


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda content: "{", "not a tokenizer that `tokenizers` can use"),
        (lambda content: content | {"model": "BPE"}, "not a tokenizer that `tokenizers` can use"),
        (lambda content: content | {"decoder": None}, "must be a byte-level BPE"),
        (lambda content: content | {"pre_tokenizer": {"type": "Whitespace"}}, "must be a byte-level BPE"),
        (lambda content: _without(content, "[MASK]"), r"without \[MASK\]. Encoders with other special tokens"),
        (lambda content: content | {"post_processor": _around("[MASK]")}, r"must put \[CLS\] before a text"),
    ],
    ids=["damaged", "model", "other", "words", "special", "around"],
)
def test_other_files_are_named(changed, message, tmp_path: Path):
    content = changed(json.loads(tokenizer_json()))
    path = tmp_path / "tokenizer.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        load_byte_pairs(path)


def test_unreadable_files_are_named(tmp_path: Path):
    with pytest.raises(ValueError, match="must be readable"):
        load_byte_pairs(tmp_path)
    (tmp_path / "t.json").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="must be UTF-8"):
        load_byte_pairs(tmp_path / "t.json")
