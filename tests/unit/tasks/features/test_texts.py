"""Embeddings of texts, compared with the encoder's outputs for one text at a time."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.config import ConfigError
from bert_tf.models.presets import encoder_of
from bert_tf.text.tokenizer import BertTokenizer
from tests.support.tasks.feature_samples import CONFIG, VOCABULARY, write_preset

TEXTS = ["a b c", "", "e f g h i j k l m n o p a b c d e f g", "p", "a b c"]

Outputs = Callable[[str, int], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("preset") / "preset")


@pytest.fixture(scope="module")
def loaded(preset: Path) -> bert_tf.models.Preset:
    return bert_tf.load_preset(preset)


@pytest.fixture(scope="module")
def outputs(loaded: bert_tf.models.Preset) -> Outputs:
    """Returns a function from a text and a length to the outputs of the encoder for it alone, without padding."""
    model = encoder_of(loaded.model)
    encoder = keras.Model(model.input, {**model.layer_outputs, **model.output})
    tokenizer = BertTokenizer(VOCABULARY)

    @functools.cache
    def of_ids(ids: tuple[int, ...]) -> dict[str, np.ndarray]:
        row = np.array([ids], np.int32)
        inputs = {"token_ids": row, "segment_ids": np.zeros_like(row), "padding_mask": np.ones_like(row)}
        return {name: np.asarray(value)[0] for name, value in encoder(inputs).items()}

    def of_text(text: str, length: int) -> dict[str, np.ndarray]:
        (ids,) = tokenizer.tokenize([text])
        return of_ids((VOCABULARY.cls_id, *ids[: length - 2].tolist(), VOCABULARY.sep_id))

    return of_text


@pytest.mark.parametrize(
    ("options", "of"),
    [
        ({}, lambda out: out["layer_4"].mean(axis=0)),
        ({"pooling": "cls", "layers": "second_to_last"}, lambda out: out["layer_3"][0]),
        ({"pooling": "pooler"}, lambda out: out["pooled_output"]),
        (
            {"layers": "concat_last_4", "max_sequence_length": 7},
            lambda out: np.concatenate([out[f"layer_{n}"] for n in range(1, 5)], axis=-1).mean(axis=0),
        ),
    ],
)
def test_vectors_equal_those_of_the_encoder(
    options: dict[str, Any], of: Any, loaded: bert_tf.models.Preset, outputs: Outputs
) -> None:
    found = bert_tf.embed(TEXTS, loaded, **options)
    length = options.get("max_sequence_length", CONFIG.max_sequence_length)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [of(outputs(text, length)) for text in TEXTS], atol=1e-5)


def test_a_loaded_preset_is_not_loaded_again(
    preset: Path, loaded: bert_tf.models.Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = bert_tf.embed(TEXTS, preset)
    monkeypatch.setattr("bert_tf.tasks.features.texts.load_backbone", None)
    np.testing.assert_array_equal(bert_tf.embed(TEXTS, loaded), expected)
    assert bert_tf.embed([], loaded).shape == (0, CONFIG.hidden_dim)


def test_texts_may_have_any_form(preset: Path) -> None:
    loaded = bert_tf.load_backbone(preset)
    expected = bert_tf.embed(TEXTS, loaded)
    for texts in (np.array(TEXTS), tuple(TEXTS), iter(TEXTS), tf.constant(TEXTS), {"text": TEXTS}):
        np.testing.assert_array_equal(bert_tf.embed(texts, loaded), expected)
    np.testing.assert_allclose(bert_tf.embed(TEXTS[0], loaded), expected[0], atol=1e-6)
    np.testing.assert_allclose(bert_tf.embed(TEXTS, loaded, batch_size=2), expected, atol=1e-6)
    normalized = bert_tf.embed(TEXTS, loaded, normalize=True)
    np.testing.assert_allclose(normalized * np.sqrt((expected**2).sum(1, keepdims=True)), expected, atol=1e-5)


def test_a_loaded_preset_is_compiled_once_and_not_kept(preset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = bert_tf.load_backbone(preset)
    first = bert_tf.embed(TEXTS, loaded)
    monkeypatch.setattr("bert_tf.tasks.features.texts._pooled", None)
    np.testing.assert_array_equal(bert_tf.embed(TEXTS, loaded), first)
    model = weakref.ref(loaded.model)
    del loaded
    gc.collect()
    assert model() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["a", None]}, "must hold strings. Received: None in row 1"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"pooling": "max"}, "`pooling` must be one of mean, cls, pooler"),
        ({"layers": "weighted_sum_all"}, "must not be a weighted sum"),
        ({"layers": "layer_9"}, "Received: 'layer_9'"),
        ({"pooling": "pooler", "layers": "layer_1"}, "Use `pooling='mean'`"),
        ({"max_sequence_length": 1000}, "`max_sequence_length` must be from 3 to"),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str, preset: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        bert_tf.embed(**{"texts": TEXTS, "preset": preset} | options)
