"""Tests the casing inferred from the word pieces of a vocabulary."""

from __future__ import annotations

import pytest

from bert_tf.config import ConfigError
from bert_tf.text.casing import casing_notice, infer_lowercase, is_lowercase, resolve_lowercase
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary, load_vocabulary
from tests.support.paths import REPOSITORY

RELEASED = REPOSITORY.parent / "shared/data/vocab"


def of(*pieces: str) -> Vocabulary:
    return Vocabulary((*SPECIAL_TOKENS, *pieces))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [(("a", "##b"), True), (("A",), False), (("##É",), False), (("é", "[unused1]", "[X]", "<S>", "東"), True)],
)
def test_capitals_indicate_a_cased_vocabulary(pieces: tuple[str, ...], expected: bool) -> None:
    assert is_lowercase(of(*pieces)) is expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("a", "##b", "[X]"), True),
        (("а", "##б"), True),
        (("a", "##B"), False),
        (("the", "cat", "URL"), None),  # a placeholder
        ((*(f"a{number}" for number in range(300)), "Ab"), None),  # one of 301
        (("東", "京", "##1", "+", "=="), None),  # no letter that has a capital
        (("ქართული",), None),  # Georgian sentences begin without capitals
        (("a", "é"), None),  # lower-case text with its accents
        ((), None),
    ],
)
def test_casing_is_inferred_from_pieces(pieces: tuple[str, ...], expected: bool | None) -> None:
    assert infer_lowercase(of(*pieces)) is expected


def test_flag_decides_casing_without_evidence() -> None:
    assert resolve_lowercase(of("東"), False, "v") is True
    assert resolve_lowercase(of("東"), True, "v") is False
    assert casing_notice(of("東"), False) is None


def test_a_cased_vocabulary_needs_no_flag() -> None:
    assert resolve_lowercase(of("The", "a"), False, "v") is False
    assert resolve_lowercase(of("The", "a"), True, "v") is False
    assert "'The'" in (casing_notice(of("The", "a"), False) or "")
    assert casing_notice(of("The", "a"), True) is None


def test_a_flag_that_contradicts_the_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--cased .* lower\.txt.*`bert-tf vocab --cased`"):
        resolve_lowercase(of("the", "a"), True, "lower.txt")


@pytest.mark.skipif(not RELEASED.is_dir(), reason="needs the released vocabularies")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("base-uncased", True), ("base-chinese", True), ("base-cased", False), ("base-multilingual-cased", False)],
)
def test_casing_of_released_vocabularies(name: str, expected: bool) -> None:
    assert infer_lowercase(load_vocabulary(RELEASED / f"bert-{name}-vocab.txt")) is expected


def test_few_capitals_are_named_and_the_flag_decides(caplog: pytest.LogCaptureFixture) -> None:
    vocabulary = of("the", "cat", "URL")
    assert is_lowercase(vocabulary) and "'URL'" in caplog.text and "--lowercase false" in caplog.text
    assert resolve_lowercase(vocabulary, False, "v") and not resolve_lowercase(vocabulary, True, "v")
    assert "Add --cased" in (casing_notice(vocabulary, False) or "")
