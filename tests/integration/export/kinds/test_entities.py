"""The graph returns the same entities as the task in Python, with their positions in the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.encoding.tags import entities
from bert_tf.encoding.words import Sentence
from bert_tf.export.inference import Predictor
from bert_tf.export.signatures import signatures_of
from bert_tf.models import BertBackbone, BertTokenClassifier, load_preset, save_preset
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text import words
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "ran", "u", "n", "e", ".", ",", "-", "猫")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, "##s", "##ed", "##a", "##n", "##t"))
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
LENGTH = 14


def saved(directory: Path, labels: tuple[str, ...] = LABELS, **task: Any) -> Path:
    keras.utils.set_random_seed(5)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32,
        max_sequence_length=LENGTH, initializer_range=0.7, pooler=False,
    )  # fmt: skip
    model = BertTokenClassifier(BertBackbone(config), len(labels))
    description = {"task": "ner", "max_sequence_length": LENGTH, "labels": list(labels), "scheme": "IOB2"}
    save_preset(model, directory, VOCABULARY, True, description | task)
    return directory


def drawn(seed: int) -> list[tuple[str, ...]]:
    """Texts from zero words to many windows; words with many pieces, with none, and longer than a row."""
    generator = np.random.default_rng(seed)
    known = [*WORDS, "cats", "U.N.", "É", "\ufffd", "zebra", "-" * 5, "natanatana", "a" * 30, "1\u00a02"]
    return [tuple(generator.choice(known, size)) for size in (0, 1, 11, 12, 13, 0, *generator.integers(1, 60, 20))]


@pytest.mark.parametrize("scheme", ["IO", "IOB1", "IOB2", "IOBES"])
def test_tags_of_spaced_words_equal_those_of_the_task(scheme: str, tmp_path: Path) -> None:
    preset = saved(tmp_path / "preset", scheme=scheme)
    # A word that contains a space becomes several words.
    rows = [tuple(" ".join(row).split()) for row in drawn(seed=1)]
    sentences = [Sentence(Path("f"), 1, row, (), row, " ", document=(row,)) for row in rows]
    expected = TaskPredictor(preset).predict_examples([sentence for sentence in sentences if sentence.words])
    signatures = signatures_of(load_preset(preset))
    texts = ["  ".join(row) for row in rows]
    endpoint = signatures.endpoints["words"]
    outputs = {name: value.numpy() for name, value in endpoint.function(tf.constant(texts)).items()}
    answers = iter(expected)
    for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
        tags = next(answers).tags if row else ()
        assert [tag.decode() for tag in outputs["tags"][number] if tag] == list(tags)
        assert [word.decode() for word in outputs["words"][number] if word] == list(row)
        assert (outputs["probabilities"][number, : len(row)] > 0.2).all()
        assert (outputs["probabilities"][number, len(row) :] == 0).all()
        if scheme == "IO":
            # Tags of this scheme do not separate adjacent entities.
            continue
        found = signatures.row({name: value[number] for name, value in outputs.items()})["entities"]
        expected_entities = entities(tags)
        assert [one["type"] for one in found] == [entity.type for entity in expected_entities]
        for one, entity in zip(found, expected_entities, strict=True):
            assert one["entity"] == "  ".join(row[entity.start : entity.end]) == text[one["start"] : one["end"]]
            scores = outputs["probabilities"][number, entity.start : entity.end]
            assert one["score"] == pytest.approx(scores.mean(), abs=1e-5)


def test_entity_offsets_point_into_the_text(tmp_path: Path) -> None:
    texts = [
        "The cat, (the dog) sat on a mat.",
        "",
        "\U0001f600 É猫 ran. \n Dog's U.N. mat...",
        b"\xff the \xc3 cat".decode(errors="replace"),
    ]
    found = Predictor(saved(tmp_path / "preset"))(texts)
    assert sum(len(row["entities"]) for row in found) > 3
    assert found[1] == {"entities": []}
    for text, row in zip(texts, found, strict=True):
        for one in row["entities"]:
            assert text[one["start"] : one["end"]] == one["entity"]
            assert one["type"] in ("LOC", "PER")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n\u3000 ", []),
        ("Ruiz lives.", ["Ruiz", "lives", "."]),
        ('He said ("Ruiz\'s house"), then left.',
         ["He", "said", "(", '"', "Ruiz", "'s", "house", '"', ")", ",", "then", "left", "."]),
        ("The U.N. and J. Ruiz, of D.C.", ["The", "U.N.", "and", "J.", "Ruiz", ",", "of", "D.C."]),
        ("in 1995. It was 3.5. Or 5.", ["in", "1995", ".", "It", "was", "3.5", ".", "Or", "5", "."]),
        ("well-known AC/DC, don't", ["well-known", "AC/DC", ",", "don't"]),
        ("wait... what?!", ["wait", "...", "what", "?", "!"]),
        ("one—two -- three", ["one", "—", "two", "--", "three"]),
        ("我爱北京。Ruiz在家", ["我", "爱", "北", "京", "。", "Ruiz", "在", "家"]),
        ("''quoted''  `a`", ["''", "quoted", "''", "`", "a", "`"]),
        ("James’s dogs' 's", ["James", "’s", "dogs", "'", "'", "s"]),
        ("É.\u00a0\u00bfQué?", ["É.", "\u00bf", "Qué", "?"]),
        ("...", ["..."]),
        ("(.)", ["(", ".", ")"]),
    ],
)  # fmt: skip
def test_punctuation_is_split_from_words(text: str, expected: list[str]) -> None:
    # The neighbours show that the texts of a batch are independent.
    texts = ["(", text, "s."]
    found = words.split(tf.constant(texts), at_spaces_only=False)
    splits, strings = found.row_splits.numpy(), [string.decode() for string in found.strings.numpy()]
    assert strings[splits[1] : splits[2]] == expected
    assert strings[: splits[1]] == ["("] and strings[splits[2] :] == ["s."]
    for string, start, limit in zip(
        *(each.numpy()[splits[1] : splits[2]] for each in (found.strings, found.starts, found.limits)), strict=True
    ):
        assert text[start:limit] == string.decode()


@pytest.mark.parametrize("texts", [[], [""], [" "], ["", "\n\t", " "]])
@pytest.mark.parametrize("at_spaces_only", [True, False])
def test_white_space_has_no_words(at_spaces_only: bool, texts: list[str]) -> None:
    found = words.split(tf.constant(texts, tf.string), at_spaces_only=at_spaces_only)
    assert found.strings.shape == (0,)
    assert found.row_splits.numpy().tolist() == [0] * (len(texts) + 1)


@pytest.mark.parametrize("at_spaces_only", [True, False])
def test_words_keep_all_characters_except_spaces(at_spaces_only: bool) -> None:
    generator = np.random.default_rng(0)
    alphabet = list("ab .,'\"(s)é-—猫。\t\u00a0\u2003U1")
    texts = ["".join(generator.choice(alphabet, size)) for size in generator.integers(0, 40, 300)]
    found = words.split(tf.constant(texts), at_spaces_only=at_spaces_only)
    splits = found.row_splits.numpy()
    strings = [string.decode() for string in found.strings.numpy()]
    for number, text in enumerate(texts):
        part = strings[splits[number] : splits[number + 1]]
        assert "".join(part) == "".join(text.split())
        if at_spaces_only:
            assert part == text.split()


@pytest.mark.parametrize(
    ("labels", "message"),
    [(("O", "B-LOC", "LOC"), "Received: 'LOC'"), (("O", "B-", "I-LOC"), "Received: 'B-'"), (("O", "S-LOC"), "S-LOC")],
)
def test_invalid_tags_are_refused(labels: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        signatures_of(load_preset(saved(tmp_path / "preset", labels)))
