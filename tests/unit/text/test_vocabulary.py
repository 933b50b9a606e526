"""Vocabulary files: read, checked, written."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, load_vocabulary, save_vocabulary

TOKENS = (*SPECIAL_TOKENS, "the", "##ing", "\u2028", "é")


def test_ids_and_special_tokens():
    vocabulary = Vocabulary(TOKENS)
    assert len(vocabulary) == len(TOKENS)
    assert [vocabulary.id_of(token) for token in TOKENS] == list(range(len(TOKENS)))
    assert vocabulary.special_ids == (0, 1, 2, 3, 4)
    assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id) == (0, 1, 2)
    assert (vocabulary.sep_id, vocabulary.mask_id) == (3, 4)
    assert vocabulary.is_continuation.dtype == np.bool_
    assert np.flatnonzero(vocabulary.is_continuation).tolist() == [TOKENS.index("##ing")]
    with pytest.raises(ValueError, match="Received: 'missing'"):
        vocabulary.id_of("missing")


def test_round_trip_and_fingerprint(tmp_path):
    path = tmp_path / "vocab.txt"
    save_vocabulary(Vocabulary(TOKENS), path)
    assert load_vocabulary(path) == Vocabulary(TOKENS)
    assert Vocabulary(TOKENS).fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [entry.name for entry in tmp_path.iterdir()] == ["vocab.txt"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["line_end_at_end", "none"])
def test_line_ends(tmp_path, end, last):
    path = tmp_path / "vocab.txt"
    path.write_bytes((end.join(TOKENS) + (end if last else "")).encode())
    assert load_vocabulary(path).tokens == TOKENS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must not be empty"),
        ("\n".join(TOKENS).encode("latin-1", "replace"), "line 9: must be UTF-8"),
        ("\n".join(t for t in TOKENS if t != "[MASK]").encode(), r"Received: .* without \[MASK\]"),
        (b"[PAD]\n[UNK]\n", r"without \[CLS\], \[SEP\], \[MASK\]"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        load_vocabulary(path)
    assert str(path) in str(error.value)


def test_missing_file_and_directory(tmp_path):
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(ValueError, match=str(path)):
            load_vocabulary(path)


def test_a_piece_with_a_line_end_is_refused():
    with pytest.raises(ValueError, match="line end"):
        Vocabulary((*TOKENS, "a\nb"))


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(TOKENS).encode())
    assert load_vocabulary(path).tokens == TOKENS


def test_blank_and_repeated_lines_keep_their_ids(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "the", "", "film", "the", " ", "##s"]) + "\n")
    vocabulary = load_vocabulary(path)
    assert (len(vocabulary), vocabulary.id_of("film"), vocabulary.id_of("the")) == (11, 7, 8)
    assert vocabulary.unreachable == [5, 6, 9]
    assert "3 lines" in caplog.text and "line 6" in caplog.text
    # Ids of google-research/bert's tokenizer with this file.
    assert BertTokenizer(vocabulary).tokenize(["the films"]).values.tolist() == [8, 7, 10]
    save_vocabulary(vocabulary, tmp_path / "again.txt")
    assert load_vocabulary(tmp_path / "again.txt") == vocabulary
