"""Tests the tokenizer files in Hugging Face's directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bert_tf.conversion import ConversionError, Options
from bert_tf.conversion.formats.huggingface import checkpoint as form
from bert_tf.text.vocabulary import load_vocabulary
from tests.support.conversion.huggingface_samples import change_json, copied, opened, recorded

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"tokenizer_config": {"tokenizer_class": "BertJapaneseTokenizer"}}, "Received: 'BertJapaneseTokenizer'"),
        ({"tokenizer_config": {"tokenize_chinese_chars": False}}, "`tokenize_chinese_chars` must be True"),
        ({"tokenizer_config": {"do_basic_tokenize": False}}, "`do_basic_tokenize` must be True"),
        ({"tokenizer_config": {"strip_accents": False}}, "`strip_accents` must equal lower-casing, True"),
        ({"tokenizer_config": {"do_lower_case": False, "strip_accents": True}}, "`strip_accents` must equal"),
        ({"tokenizer_config": {"never_split": ["x"]}}, "`never_split` must be"),
        ({"tokenizer_config": {"do_lower_case": "yes"}}, "`do_lower_case` must be true, false or null"),
        ({"tokenizer_config": {"mask_token": "<mask>"}}, r"`mask_token` must be \[MASK\]. Received: '<mask>'"),
        ({"tokenizer_config": {"new_setting": 1}}, "unknown key `new_setting`"),
        ({"special_tokens_map": {"pad_token": {"content": "<pad>"}}}, r"`pad_token` must be \[PAD\]"),
        ({"added_tokens": {"[NEW]": 60}}, "as many word pieces as the token embedding has rows, 60. Received: 61"),
        ({"added_tokens": {"[NEW]": 62}}, r"continue those of the 60 word pieces. Received: \[62\]"),
        ({"added_tokens": {"[NEW]": 5}}, r"id 5 must be of 'a'. Received: '\[NEW\]'"),
        ({"tokenizer_config": {"added_tokens_decoder": {"4": {"content": "<x>"}}}}, r"id 4 must be of '\[MASK\]'"),
    ],
)
def test_tokenizer_settings_other_than_those_of_bert_are_refused(
    files: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    directory = copied("pretraining", tmp_path)
    for name, fields in files.items():
        change_json(directory / f"{name}.json", **fields)
    with pytest.raises(ConversionError, match=reason):
        opened(directory)


@pytest.mark.parametrize(
    ("part", "fields", "reason"),
    [
        ("model", {"type": "Unigram"}, "`model` must be WordPiece. Received: 'Unigram'"),
        ("model", {"unk_token": "<unk>"}, "`model.unk_token` must be"),
        ("model", {"continuing_subword_prefix": "@@"}, "`model.continuing_subword_prefix` must be '##'"),
        ("model", {"max_input_chars_per_word": 7}, "`model.max_input_chars_per_word` must be 100 or 200"),
        ("normalizer", {"type": "Sequence"}, "`normalizer` must be BertNormalizer. Received: 'Sequence'"),
        ("normalizer", {"handle_chinese_chars": False}, "`normalizer.handle_chinese_chars` must be True"),
        ("normalizer", {"clean_text": False}, "`normalizer.clean_text` must be True"),
        ("pre_tokenizer", {"type": "Whitespace"}, "`pre_tokenizer` must be BertPreTokenizer"),
        ("post_processor", {"type": "RobertaProcessing"}, "`post_processor` must be TemplateProcessing"),
    ],
)
def test_tokenizer_pipelines_other_than_that_of_bert_are_refused(
    part: str, fields: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    directory = copied("question_answering", tmp_path)
    whole = json.loads((directory / "tokenizer.json").read_text())
    whole[part] |= fields
    (directory / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(ConversionError, match=reason):
        opened(directory)


def test_two_different_vocabularies_are_refused(tmp_path: Path) -> None:
    directory = copied("question_answering", tmp_path)
    tokens = list(load_vocabulary(recorded("pretraining") / "vocab.txt").tokens)
    tokens[7], tokens[8] = tokens[8], tokens[7]
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n")
    with pytest.raises(
        ConversionError, match="must have the word pieces of vocab.txt. Received: id 7 is 'c' instead of 'd'"
    ):
        opened(directory)


def test_a_vocabulary_from_tokenizer_json() -> None:
    checkpoint = opened(recorded("question_answering"))
    assert checkpoint.vocabulary == opened(recorded("pretraining")).vocabulary
    assert checkpoint.lowercase is True


@pytest.mark.parametrize("lowercase", [True, False])
def test_casing_of_tokenizer_json(lowercase: bool, tmp_path: Path) -> None:
    directory = copied("question_answering", tmp_path)
    (directory / "tokenizer_config.json").unlink()
    whole = json.loads((directory / "tokenizer.json").read_text())
    whole["normalizer"]["lowercase"] = lowercase
    (directory / "tokenizer.json").write_text(json.dumps(whole))
    assert opened(directory).lowercase is lowercase


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("bert-base-uncased", Options(), True),
        ("bert-base-cased", Options(), False),
        ("bert-tiny", Options(), True),
        ("bert-base-cased", Options(lowercase=True), True),
    ],
)
def test_casing_without_a_tokenizer_file(name: str, options: Options, expected: bool, tmp_path: Path) -> None:
    assert opened(copied("backbone", tmp_path, name), options).lowercase is expected


def test_casing_by_the_vocabulary(tmp_path: Path) -> None:
    directory = copied("token_classification", tmp_path, "ner")
    (directory / "tokenizer_config.json").unlink()
    assert opened(directory).lowercase is False


def test_added_tokens_are_read_and_written(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    lines = (directory / "vocab.txt").read_text().splitlines(keepends=True)
    (directory / "vocab.txt").write_text("".join(lines[:58]))
    (directory / "added_tokens.json").write_text(json.dumps({"<one>": 58, "<two>": 59}))
    source = opened(directory)
    assert source.vocabulary is not None and source.vocabulary.tokens[58:] == ("<one>", "<two>")
    form.write(source, tmp_path, Options())
    assert (tmp_path / "vocab.txt").read_text() == "".join(lines[:58])
    assert opened(tmp_path).vocabulary == source.vocabulary
    whole = json.loads((tmp_path / "tokenizer.json").read_text())
    assert [token["content"] for token in whole["added_tokens"]] == [*SPECIAL, "<one>", "<two>"]


def test_vocabulary_option_replaces_that_of_the_checkpoint(tmp_path: Path) -> None:
    directory = copied("pretraining", tmp_path)
    (directory / "vocab.txt").rename(tmp_path / "mine.txt")
    assert opened(directory).vocabulary is None
    found = opened(directory, Options(vocabulary=tmp_path / "mine.txt"))
    assert found.vocabulary == load_vocabulary(tmp_path / "mine.txt")
    with pytest.raises(ConversionError, match="no such file"):
        opened(directory, Options(vocabulary=tmp_path / "none.txt"))
