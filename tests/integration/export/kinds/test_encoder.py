"""Embeddings of any layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.signatures import signatures_of
from bert_tf.models import load_preset
from tests.support.export.presets import MAX_LENGTH, VOCABULARY, WORDS

TEXTS = ["the cat sat on a mat", "dog", " ".join(WORDS * 3)]
CHOSEN = [[0, -1], [2, 1], [-3, -2]]


def rows_of(texts: list[str]) -> dict[str, np.ndarray]:
    """The model's inputs for words of the vocabulary, by hand."""
    tokens = [[VOCABULARY.id_of(word) for word in text.split()][: MAX_LENGTH - 2] for text in texts]
    token_ids = np.zeros((len(texts), max(map(len, tokens)) + 2), np.int32)
    padding_mask = np.zeros_like(token_ids)
    for row, ids in enumerate(tokens):
        token_ids[row, : len(ids) + 2] = [VOCABULARY.cls_id, *ids, VOCABULARY.sep_id]
        padding_mask[row, : len(ids) + 2] = 1
    return {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": padding_mask}


def expected(preset: Path, texts: list[str], layers: list[list[int]]) -> dict[str, np.ndarray]:
    """Returns the embeddings of the live model's layers, computed with NumPy."""
    model = load_preset(preset).model
    backbone = getattr(model, "backbone", model)
    inputs = rows_of(texts)
    hidden = [np.asarray(value) for value in backbone.features(backbone.layer_outputs)(inputs, training=False).values()]
    lengths = inputs["padding_mask"].sum(axis=1)
    numbered = list(zip(lengths, layers, strict=True))
    return {
        "first_output": np.stack([[hidden[n][row, 0] for n in wanted] for row, (_, wanted) in enumerate(numbered)]),
        "mean_output": np.stack(
            [[hidden[n][row, :k].mean(axis=0) for n in wanted] for row, (k, wanted) in enumerate(numbered)]
        ),
    }


@pytest.mark.parametrize("kind", ["backbone", "pretrainer"])
def test_each_row_chooses_its_layers(kind: str, presets: dict[str, Path]) -> None:
    signatures = signatures_of(load_preset(presets[kind]))
    found = signatures.endpoints["layers"].function(tf.constant(TEXTS), tf.constant(CHOSEN))
    wanted = expected(presets[kind], TEXTS, CHOSEN)
    assert set(found) == set(wanted)
    for name, vectors in wanted.items():
        assert found[name].dtype == tf.float32
        np.testing.assert_allclose(found[name], vectors, atol=1e-5, err_msg=name)


def test_last_layer_equals_the_default_signature(presets: dict[str, Path]) -> None:
    signatures = signatures_of(load_preset(presets["backbone"]))
    texts = tf.constant(TEXTS)
    last = signatures.endpoints["layers"].function(texts, tf.constant([[2], [-1], [2]]))
    np.testing.assert_allclose(last["mean_output"][:, 0], signatures.answer(texts)["mean_output"], atol=1e-6)


@pytest.mark.slow
def test_export_returns_selected_layers_and_refuses_unknown_ones(
    exported: Callable[[str], Path], presets: dict[str, Path]
) -> None:
    signature = tf.saved_model.load(str(exported("backbone"))).signatures["layers"]
    answer = signature(text=tf.constant(TEXTS), layers=tf.constant(CHOSEN))
    for name, vectors in expected(presets["backbone"], TEXTS, CHOSEN).items():
        np.testing.assert_allclose(answer[name], vectors, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"layers must lie in -3\.\.2; smallest and largest"):
        signature(text=tf.constant(["cat"]), layers=tf.constant([[3]]))
