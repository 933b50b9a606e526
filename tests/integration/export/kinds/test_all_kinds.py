"""Supported and unsupported exports of presets that pre-training and fine-tuning do not produce."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig, ConfigError
from bert_tf.data.schema import TOKEN_IDS
from bert_tf.export.inference import Predictor
from bert_tf.export.saved_model import export_preset
from bert_tf.export.signatures import KINDS as SIGNATURES
from bert_tf.export.signatures import signatures_of
from bert_tf.models import (
    MODEL_KINDS,
    BertBackbone,
    BertPretrainer,
    BertProbe,
    load_preset,
    save_preset,
)
from tests.support.export.presets import KINDS, VOCABULARY, WORDS, make_preset

CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY), hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=16,
    max_sequence_length=24, initializer_range=0.5,
)  # fmt: skip


def saved(model: keras.Model, directory: Path) -> Path:
    save_preset(model, directory, VOCABULARY, True)
    return directory


def outputs_of(preset: Path, text: str) -> dict[str, dict[str, tf.Tensor]]:
    """Returns the outputs of all signatures of a preset for one text."""
    signatures = signatures_of(load_preset(preset))
    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.append(text.encode())
    given = {
        "text": tf.constant([text]),
        "examples": tf.constant([example.SerializeToString()]),
        "mask_positions": tf.constant([[1]]),
        "layers": tf.constant([[-1]]),
    } | signatures.encode(tf.constant([text]))
    return {
        name: endpoint.function(*(given[str(spec.name)] for spec in endpoint.inputs))
        for name, endpoint in signatures.endpoints.items()
    }


@pytest.mark.parametrize("pooler", [True, False])
def test_masks_are_filled_without_next_sentence_prediction(pooler: bool, tmp_path: Path) -> None:
    backbone = BertBackbone(replace(CONFIG, pooler=pooler))
    preset = saved(BertPretrainer(backbone, next_sentence=False), tmp_path / "preset")
    outputs = {name: set(answer) for name, answer in outputs_of(preset, "the [MASK] sat").items()}
    pooled = {"pooled_output"} if pooler else set()
    assert outputs == {
        "serving_default": {"tokens", "scores"},
        "serve_examples": {"tokens", "scores"},
        "embed": {"mean_output"} | pooled,
        "layers": {"first_output", "mean_output"},
        "ids": {"mlm_logits"},
    }
    (answer,) = Predictor(preset)(["the [MASK] sat"])
    assert len(answer["masks"]) == 1 and len(answer["masks"][0]) == 5


def test_encoder_without_pooler_embeds_by_the_mean(tmp_path: Path) -> None:
    preset = saved(BertBackbone(replace(CONFIG, pooler=False)), tmp_path / "preset")
    ids = np.array([[VOCABULARY.cls_id, VOCABULARY.id_of(WORDS[0]), VOCABULARY.sep_id]], np.int32)
    ones = np.ones_like(ids)
    expected = load_preset(preset).model({"token_ids": ids, "segment_ids": ones * 0, "padding_mask": ones})
    mean = np.asarray(expected["sequence_output"]).mean(axis=1)
    found = outputs_of(preset, WORDS[0])
    assert set(found["ids"]) == {"sequence_output", "mean_output"}
    assert set(found["serving_default"]) == {"mean_output"}
    for answer in found.values():
        np.testing.assert_allclose(np.reshape(answer["mean_output"], mean.shape), mean, atol=1e-5)


@pytest.mark.slow
def test_a_masked_language_model_without_pooler_is_exported(tmp_path: Path, quick_verification: None) -> None:
    backbone = BertBackbone(replace(CONFIG, pooler=False))
    preset = saved(BertPretrainer(backbone, next_sentence=False), tmp_path / "preset")
    signatures = tf.saved_model.load(str(export_preset(preset, tmp_path / "model"))).signatures
    assert set(signatures["embed"].structured_outputs) == {"mean_output"}
    (answer,) = Predictor(preset)(["the [MASK] sat"])
    served = signatures["serving_default"](text=tf.constant(["the [MASK] sat"]))
    assert [c["token"] for c in answer["masks"][0]] == [t.decode() for t in served["tokens"].numpy()[0, 0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda backbone: BertProbe(backbone, 3, "last"), "have signatures. Received: BertProbe"),
        (
            lambda backbone: BertPretrainer(backbone, masked_lm=False),
            "must have a masked language model. Received",
        ),
    ],
)
def test_unsupported_presets_are_named_and_refused(build, message: str, tmp_path: Path) -> None:
    preset = saved(build(BertBackbone(CONFIG)), tmp_path / "preset")
    for use in (Predictor, lambda path: export_preset(path, tmp_path / "model")):
        with pytest.raises(ConfigError, match=message):
            use(preset)
    assert not (tmp_path / "model").exists()


def test_signatures_are_of_kinds_of_models() -> None:
    assert set(SIGNATURES) < set(MODEL_KINDS)


def test_pretrainer_with_both_heads_has_all_signatures(tmp_path: Path) -> None:
    signatures = signatures_of(load_preset(make_preset("pretrainer", tmp_path / "preset")))
    texts = tf.constant(["the cat"])
    assert set(signatures.endpoints["embed"].function(texts)) == {"pooled_output", "mean_output"}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_all_lengths_are_padded_to_few_lengths(
    kind: str, presets: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures = signatures_of(load_preset(presets[kind]), max_sequence_length=20)
    graph = "_encoded" if kind == "backbone" else "run"
    run, lengths = getattr(signatures, graph), set()

    def recorded(rows: dict[str, tf.Tensor]) -> tf.Tensor:
        lengths.add(rows[TOKEN_IDS].shape[-1])
        return run(rows)

    monkeypatch.setitem(signatures.__dict__, graph, recorded)
    for size in (0, 1, 2, 3, 5, 8, 9, 11, 12, 30):
        texts = [tf.constant([" ".join(["cat"] * size)])] * len(signatures.text_inputs)
        if kind == "choices":
            texts[1] = tf.repeat(texts[1][tf.newaxis], 3, axis=1)
        signatures.answer(*texts)
    assert lengths == {8, 16, 20}
