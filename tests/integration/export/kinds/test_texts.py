"""The graph returns the same labels, numbers and choices as the task, including windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.encoding.choices import ChoiceExample
from bert_tf.encoding.texts import TextExample
from bert_tf.export.inference import Predictor
from bert_tf.export.kinds.base import Signatures
from bert_tf.export.signatures import signatures_of
from bert_tf.models import BertBackbone, BertMultipleChoice, BertTextClassifier, load_preset, save_preset
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "ran", "to", "big", "red", "house")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, "##s", "##ed"))
LENGTH = 16
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32,
    max_sequence_length=LENGTH, initializer_range=0.7,
)  # fmt: skip


def classifier(directory: Path, classes: int, **task: Any) -> Path:
    keras.utils.set_random_seed(1)
    save_preset(
        BertTextClassifier(BertBackbone(CONFIG), classes),
        directory,
        VOCABULARY,
        True,
        {"max_sequence_length": LENGTH} | task,
    )
    return directory


def drawn(columns: int, seed: int) -> list[tuple[str, ...]]:
    """Texts from empty to many windows."""
    generator = np.random.default_rng(seed)
    sizes = [(0,) * columns, (13,) * columns, (60,) * columns, *generator.integers(0, 50, (25, columns))]
    return [tuple(" ".join(generator.choice(WORDS, size)) for size in row) for row in sizes]


def outputs_of(signatures: Signatures, name: str, *inputs: Any) -> dict[str, np.ndarray]:
    endpoint = signatures.endpoints[name]
    return {key: value.numpy() for key, value in endpoint.function(*map(tf.constant, inputs)).items()}


def example_of(**texts: Any) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in np.atleast_1d(value)]))
        for name, value in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.mark.parametrize("windows", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("columns", [1, 2])
def test_labels_equal_those_of_the_task(columns: int, windows: bool, tmp_path: Path) -> None:
    labels = ["yes", "no", "peut-être"]
    preset = classifier(
        tmp_path / "preset", 3, task="classify", labels=labels, text_columns=columns, windows=windows,
        text_names=["a", "b"][:columns],
    )  # fmt: skip
    rows = drawn(columns, seed=columns)
    expected = TaskPredictor(preset).predict_examples([TextExample("f", row) for row in rows])
    found = Predictor(preset)(*zip(*rows, strict=True))
    for answer, served in zip(expected, found, strict=True):
        assert served["label"] == answer.label
        assert list(served["probabilities"]) == labels
        np.testing.assert_allclose(list(served["probabilities"].values()), answer.probabilities, atol=1e-5)


def test_regression_outputs_equal_those_of_the_task(tmp_path: Path) -> None:
    preset = classifier(
        tmp_path / "preset", 1, task="regression", text_columns=2, windows=True, text_names=["a", "b"],
        mean=3.0, deviation=0.5,
    )  # fmt: skip
    rows = drawn(2, seed=3)
    answers = TaskPredictor(preset).predict_examples([TextExample("f", row) for row in rows])
    expected = [answer.number for answer in answers]
    np.testing.assert_allclose(
        [row["number"] for row in Predictor(preset)(*zip(*rows, strict=True))], expected, atol=1e-5
    )
    examples = [example_of(text=a, text_pair=b) for a, b in rows]
    signatures = signatures_of(load_preset(preset))
    np.testing.assert_allclose(outputs_of(signatures, "regress", examples)["outputs"], expected, atol=1e-5)
    np.testing.assert_allclose(outputs_of(signatures, "serve_examples", examples)["number"], expected, atol=1e-5)


def test_classify_returns_every_class_of_an_example(tmp_path: Path) -> None:
    preset = classifier(tmp_path / "preset", 2, task="sst2", labels=["0", "1"], text_columns=1)
    signatures = signatures_of(load_preset(preset))
    texts = ["the cat", "", "big red house"]
    examples = [example_of(text=text) for text in texts]
    found, expected = outputs_of(signatures, "classify", examples), outputs_of(signatures, "serving_default", texts)
    assert found["classes"].tolist() == [[b"0", b"1"]] * 3
    np.testing.assert_allclose(found["scores"], expected["probabilities"], atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: text .* is required but could not be found"):
        outputs_of(signatures, "classify", [example_of(other="x")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input"):
        outputs_of(signatures, "serve_examples", [b"not an example"])


@pytest.mark.parametrize("known", [4, pytest.param(0, marks=pytest.mark.slow)])
def test_choices_equal_those_of_the_task(known: int, tmp_path: Path) -> None:
    keras.utils.set_random_seed(2)
    preset = tmp_path / "preset"
    description = {"task": "swag", "max_sequence_length": LENGTH, "choices": known}
    save_preset(BertMultipleChoice(BertBackbone(CONFIG)), preset, VOCABULARY, True, description)
    rows = drawn(6, seed=4)[1:]
    examples = [ChoiceExample("f", n, row[0], row[1], row[2:]) for n, row in enumerate(rows)]
    expected = TaskPredictor(preset).predict_examples(examples)
    signatures = signatures_of(load_preset(preset))
    texts = [row[0] for row in rows]
    choices = [[f"{row[1]} {ending}".strip() for ending in row[2:]] for row in rows]
    found = outputs_of(signatures, "serving_default", texts, choices)
    np.testing.assert_allclose(found["probabilities"], [answer.probabilities for answer in expected], atol=1e-5)
    chosen = np.take_along_axis(found["probabilities"], found["choice"][:, np.newaxis], axis=1)
    np.testing.assert_allclose(chosen[:, 0], found["probabilities"].max(axis=1), atol=1e-6)
    serialized = [example_of(text=text, choices=of) for text, of in zip(texts, choices, strict=True)]
    np.testing.assert_allclose(
        outputs_of(signatures, "serve_examples", serialized)["probabilities"], found["probabilities"], atol=1e-5
    )
    with pytest.raises(ConfigError, match="list input `choices`"):
        Predictor(preset)


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> Signatures:
    preset = tmp_path_factory.mktemp("chooser") / "preset"
    description = {"task": "swag", "max_sequence_length": LENGTH}
    save_preset(BertMultipleChoice(BertBackbone(CONFIG)), preset, VOCABULARY, True, description)
    return signatures_of(load_preset(preset))


@pytest.mark.parametrize(
    ("texts", "choices", "message"),
    [
        (["a"], [["b"], ["c"]], "choices must have as many rows as text"),
        (["a"], np.empty((1, 0), object), "choices must have at least one column"),
        (["a"] * 2, np.full((2, 2049), "b", object), "choices must make at most 4096 rows"),
        (["a"], ["b"], "choices"),
    ],
)
def test_choices_without_a_text_are_refused(texts: Any, choices: Any, message: str, chooser: Signatures) -> None:
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError), match=message):
        outputs_of(chooser, "serving_default", tf.constant(texts, tf.string), tf.constant(choices, tf.string))
