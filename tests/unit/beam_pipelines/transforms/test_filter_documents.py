"""Words, symbols, languages, and the reasons for documents left out by the rules."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_pipelines.cleaning import characters
from beam_pipelines.cleaning.languages import check_languages, identify_language, known_languages, sample
from beam_pipelines.cleaning.quality import measure, repeated_lines
from beam_pipelines.transforms.filter_documents import find_reasons
from bert_tf.config import CleaningConfig, ConfigError
from tests.support.beam_pipelines.cleaning_samples import PROSE, UNSPACED_NAMES, as_batch, plain_words

EVERYTHING = CleaningConfig(language_filter=True, min_words=5, max_symbol_ratio=0.1, max_repeated_lines=0.3)
# Letters, marks and digits of several scripts, spaces, punctuation, signs, format and control characters.
SOME = "ab1É\u0301 \t\n\u3000.,'-—#*_@+$€°中々〇あー・กิ๑हि\u200c\u200d\ufeff\x07\ufffd\U0001f600한"


@pytest.fixture
def slice_characters(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def change(count: int) -> None:
        monkeypatch.setattr(characters, "SLICE_CHARACTERS", count)

    return change


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Hello, world!", 2),
        ("“Don't stop,” said the mother-in-law.", 5),
        ("— … — *** #", 0),
        ("", 0),
        ("It cost $ 3,000.50", 3),
        ("维基百科，自由的百科全书", 11),
        ("BERT模型 is 2018年", 6),
        ("東京タワー", 5),
        ("これは、ペンです。", 7),
        ("กินข้าว", 5),
        ("हिन्दी भाषा", 2),
        ("می\u200cخواهم بروم", 2),
        ("re\u0301sume\u0301", 1),
        ("a\u3000b\u2028c", 3),
    ],
)
def test_words_of_scripts(text: str, count: int) -> None:
    assert measure([[text]]).words.tolist() == [count] == [len(plain_words(text))]


def test_scripts_without_spaces_are_recognized_by_character_names() -> None:
    classes = characters.character_classes()
    for code_point in range(characters.CODE_POINTS):
        character = chr(code_point)
        category = unicodedata.category(character)
        if category[0] == "L" or category == "Nl":
            unspaced = unicodedata.name(character, "").startswith(UNSPACED_NAMES)
            wanted = characters.UNSPACED if unspaced else characters.SPACED
            assert classes[code_point] == wanted, f"U+{code_point:04X}"


@pytest.mark.parametrize(
    ("of_class", "members"),
    [
        (characters.SPACE, " \t\n\x85\u00a0\u2028\u3000"),
        (characters.SYMBOL, "#*@\\_{}•＃$€+<=>|~^`°©™→☃\U0001f600\ufffd\x00\x07\ue000\u0378"),
        (characters.OTHER, ".,;:!?¡¿'\"“”«»()[]-–—…/&%§、。「」،؟।·・\u00ad\u200b\u200c\u200d\u200e\ufeff"),
        (characters.SPACED, "aÉßжعह한9½٣Ⅷ²\u0301\u093f\ufe0f"),
        (characters.UNSPACED_MARK, "\u0e34\u3099\u102d\u17b7"),
    ],
)
def test_classes(of_class: int, members: str) -> None:
    assert {character: int(characters.character_classes()[ord(character)]) for character in members} == dict.fromkeys(
        members, of_class
    )


@pytest.mark.parametrize("language", PROSE)
def test_prose_of_every_script_has_no_symbols(language: str) -> None:
    found = measure([[PROSE[language]]])
    assert found.symbol_ratio.tolist() == [0]
    assert found.words[0] >= 20


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("ab # $", 2 / 4),
        ("for (i = 0; i < n; ++i) { x[i] = *y; }", 8 / 26),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 3 / 5),
        ("Ã\x83Â\x82 \ufffd\ufffd", 4 / 6),
        ("lone \ud800", 1 / 5),
        (" \n ", 0.0),
    ],
)
def test_symbols(text: str, ratio: float) -> None:
    assert measure([[text]]).symbol_ratio.tolist() == [ratio]


@given(st.lists(st.lists(st.text(SOME, max_size=12) | st.text(max_size=5), max_size=4), max_size=5))
@example([[], ["", "a"], [" "]])
@settings(deadline=None, max_examples=100)
def test_measures_equal_plain_python(documents: list[list[str]]) -> None:
    found = measure(documents)
    classes = characters.character_classes()
    for paragraphs, words, ratio in zip(documents, *found, strict=True):
        visible = [character for text in paragraphs for character in text if not character.isspace()]
        symbols = [character for character in visible if classes[ord(character)] == characters.SYMBOL]
        assert words == sum(len(plain_words(text)) for text in paragraphs)
        assert ratio == len(symbols) / max(len(visible), 1)


@pytest.mark.parametrize("count", [1, 7, 50])
def test_measures_do_not_depend_on_slices(count: int, slice_characters: Callable[[int], None]) -> None:
    documents = [[text, "Two words.", text[:20]] for text in PROSE.values()]
    whole = measure(documents)
    slice_characters(count)
    slices = list(characters.in_slices(documents))
    assert max(sum(map(len, texts)) for _, texts in slices) <= count
    owned = [
        "".join(t for o, texts in slices for n, t in zip(o, texts, strict=True) if n == number) for number in (0, 3)
    ]
    assert owned == ["".join(documents[0]), "".join(documents[3])]
    assert measure(documents).symbol_ratio.tolist() == whole.symbol_ratio.tolist()
    if count == 50:  # only words at the cuts of long paragraphs are counted twice
        cuts = [sum(len(text) // count for text in document) for document in documents]
        extra = (measure(documents).words - whole.words).tolist()
        assert all(0 <= more <= most for more, most in zip(extra, cuts, strict=True))


@pytest.mark.parametrize(
    ("lines", "share"), [([], 0), (["a"], 0), (["a", "b"], 0), (["a", "a"], 1 / 2), (["a", "b", "a", "a"], 2 / 4)]
)
def test_repeated_lines(lines: list[str], share: float) -> None:
    assert repeated_lines(lines) == share


@pytest.mark.parametrize("language", PROSE)
def test_language_of_prose(language: str) -> None:
    assert identify_language(PROSE[language]) == language


def test_preface_in_another_language_does_not_change_the_language() -> None:
    text = PROSE["en"][:150] + "\n" + "\n".join([PROSE["de"]] * 20)
    assert identify_language(text) == "de"


def test_samples_are_spread() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))
    assert sample(text) == " ".join([text[:200], text[2400:2600], text[-200:]])
    assert sample(text[:600]) == text[:600]
    assert len(sample(text[:601])) == 602


@pytest.mark.parametrize("language", ["de", "en", "zh"])
def test_real_passages_keep_their_language(language: str, shared_data: Path) -> None:
    articles = json.loads((shared_data / f"finetune/squad/xquad.{language}.json").read_text(encoding="utf-8"))["data"]
    passages = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    others = sum(identify_language(passage) != language for passage in passages)
    assert len(passages) == 240
    assert others <= 1


def test_known_languages_are_accepted() -> None:
    check_languages(PROSE)
    assert {len(code) for code in known_languages()} == {2}


@pytest.mark.parametrize("codes", [["en", "none"], ["xx"], ["wuu"], ["EN"]])
def test_unknown_languages_are_refused_with_the_list(codes: list[str]) -> None:
    with pytest.raises(ConfigError, match=rf"any of: .*de, .*, en, .*Received: '{codes[-1]}'$"):
        check_languages(codes)


REASONS = {
    "short": ("Too short, $ $ $.", "too_short"),
    "symbols": (PROSE["de"] + " {}" * 20 + "\nx" * 20, "symbols"),
    "repeated": ("\n".join([PROSE["de"]] * 4), "repeated_lines"),
    "foreign": (PROSE["de"], "language"),
    "kept": (PROSE["en"], ""),
}


@pytest.mark.parametrize("name", REASONS)
def test_first_violated_rule_is_the_reason(name: str) -> None:
    text, reason = REASONS[name]
    assert find_reasons(as_batch([text.split("\n")]), EVERYTHING, ("en",)) == [reason]


@pytest.mark.parametrize(
    ("cleaning", "text", "kept"),
    [
        (CleaningConfig(), "$ $\n$ $", True),
        (CleaningConfig(min_words=4), "one two three four", True),
        (CleaningConfig(min_words=5), "one two three four", False),
        (CleaningConfig(max_symbol_ratio=0.5), "a $", True),
        (CleaningConfig(max_symbol_ratio=0.49), "a $", False),
        (CleaningConfig(max_symbol_ratio=0.0), "a b.", True),
        (CleaningConfig(max_repeated_lines=0.5), "a\na", True),
        (CleaningConfig(max_repeated_lines=0.4), "a\na", False),
        (CleaningConfig(language_filter=True), PROSE["en"], True),
        (CleaningConfig(language_filter=True), PROSE["fr"], False),
        (CleaningConfig(language_filter=True), "— … —", True),
    ],
)
def test_limits_are_inclusive(cleaning: CleaningConfig, text: str, kept: bool) -> None:
    assert (find_reasons(as_batch([text.split("\n")]), cleaning, ("en",)) == [""]) is kept


def test_language_of_the_input_is_expected() -> None:
    batch = [document for number in range(3) for document in as_batch([[PROSE["de"]]], source=number)]
    assert find_reasons(batch, EVERYTHING, ("en", "de", "none")) == ["language", "", ""]


@pytest.mark.parametrize(
    "fields",
    [
        {"min_words": -1},
        {"max_symbol_ratio": 1.1},
        {"max_repeated_lines": float("nan")},
        {"near_duplicates": 0.49},
        {"near_duplicates": 0.96},
        {"near_duplicates": float("nan")},
    ],
)
def test_rules_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"`{next(iter(fields))}` must be .* Received: "):
        CleaningConfig(**fields)
