"""Presets of format version 1, made by testdata/make_presets_v1.py."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.models import MODEL_KINDS, load_preset, save_preset
from bert_tf.models.presets import read_header
from tests.support.paths import TESTDATA

ARCHIVE = TESTDATA / "preset_v1.zip"
NAMES = {
    "encoder": "BertBackbone",
    "pretrainer": "BertPretrainer",
    "masked_lm": "BertPretrainer",
    "text_classifier": "BertTextClassifier",
    "bilstm_classifier": "BertTextClassifier",
    "token_classifier": "BertTokenClassifier",
    "span_predictor": "BertSpanPredictor",
    "multiple_choice": "BertMultipleChoice",
    "feature_tagger": "BertFeatureTagger",
    "probe": "BertProbe",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("presets")
    shutil.unpack_archive(ARCHIVE, folder)
    return folder


def test_every_kind_of_preset_is_stored() -> None:
    assert set(NAMES.values()) == set(MODEL_KINDS)


def weights(path: Path) -> dict[str, bytes]:
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()}) if hasattr(item, "dtype") else None)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_the_same(name: str, folder: Path, tmp_path: Path) -> None:
    written = json.loads((folder / name / "config.json").read_text())
    assert written["format_version"] == 1
    preset = load_preset(folder / name, "float32")
    header = read_header(folder / name)[0]
    assert (preset.kind, preset.lowercase, preset.info) == (NAMES[name], written["lowercase"], written["info"])
    assert preset.task == ({"labels": ["a", "b", "c"]} if name == "text_classifier" else None)
    assert {key: getattr(preset.config, key) for key in written["model"]} == written["model"]
    given = {key: value for key, value in written.items() if value is not None}
    for key in ("num_classes", "pooling", "combination", "bilstm_dim"):
        assert header.arguments.get(key) == given.get(key)
    assert header.arguments.get("dropout") == given.get("classifier_dropout")
    with np.load(folder / f"{name}.npz") as arrays:
        inputs = {key: arrays[f"inputs/{key}"] for key in preset.model.input}
        outputs = preset.model(inputs)
        outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
        assert {f"outputs/{key}" for key in outputs} == {key for key in arrays if key.startswith("outputs/")}
        for key, value in outputs.items():
            np.testing.assert_allclose(value, arrays[f"outputs/{key}"], atol=1e-5)
    save_preset(preset.model, tmp_path / "again", preset.vocabulary, preset.lowercase, preset.task, preset.info)
    assert json.loads((tmp_path / "again" / "config.json").read_text())["format_version"] == 2
    assert weights(tmp_path / "again" / "model.weights.h5") == weights(folder / name / "model.weights.h5")
    assert dataclasses.replace(read_header(tmp_path / "again")[0], weights_sha256="") == header
    assert load_preset(tmp_path / "again").model.get_config() == preset.model.get_config()


def test_a_preset_without_pooling_takes_the_first_token(folder: Path, tmp_path: Path) -> None:
    directory = changed(folder / "text_classifier", tmp_path, lambda c: c.pop("pooling"))
    assert load_preset(directory).model.pooling == "first"


def changed(source: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    directory = Path(shutil.copytree(source, tmp_path / "preset"))
    content = json.loads((directory / "config.json").read_text())
    change(content)
    (directory / "config.json").write_text(json.dumps(content))
    return directory


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(heads=3), "unknown key `heads`"),
        (lambda c: c["model"].update(num_head=3), r"unknown key `num_head`.*num_heads"),
        (lambda c: c["model"].update(num_heads=3), "`hidden_dim` must be a multiple of `num_heads`"),
        (lambda c: c["model"].update(num_layers="2"), "`num_layers` must be int"),
        (lambda c: c["model"].update(num_layers=10**9), "`num_layers` must be at most 1000. Received: 1000000000"),
        (lambda c: c["model"].update(layer_norm_epsilon=float("inf")), "must be a finite number. Received: inf"),
        (lambda c: c.update(model=[]), "expected a JSON object"),
        (lambda c: c.update(kind="BertSomething"), "`class_name` must be one of"),
        (lambda c: c.update(kind=["BertBackbone"]), "`class_name` must be one of"),
        (lambda c: c.update(kind="BertBiLSTMEncoder"), "`class_name` must be one of"),
        (lambda c: c.update(kind="BertTextClassifier"), "`num_classes` is required for BertTextClassifier"),
        (lambda c: c.update(kind="BertTokenClassifier"), "`num_classes` is required for BertTokenClassifier"),
        (lambda c: c.update(num_classes=2), "unknown key `num_classes`"),
        (lambda c: c.update(pooling="mean"), "unknown key `pooling`"),
        (lambda c: c.update(bilstm_dim=3), "one of BertBackbone. Received: 'BertBiLSTMEncoder'"),
        (lambda c: c.update(masked_lm=1), "`masked_lm` must be bool. Received: 1"),
        (lambda c: c["model"].update(pooler=False), "`next_sentence` needs an encoder with `pooler`"),
        (lambda c: c.update(next_sentence=False), "has no weight `nsp_logits/"),
        (lambda c: c.update(info=[]), "`info` must be dict"),
        (lambda c: c.pop("lowercase"), "lowercase"),
        (lambda c: c.update(vocabulary_sha256="0"), "vocab.txt: not the vocabulary of config.json"),
        (lambda c: c["model"].update(vocabulary_size=21), "as many tokens as .* 21. Received: 20"),
        (lambda c: c["model"].update(num_layers=2), r"weight `layer_2/.*is missing"),
        (lambda c: c["model"].update(max_sequence_length=10**8), "must contain at least"),
        (lambda c: c.update(kind="BertBackbone"), "has no weight `mlm_logits/"),
        (lambda c: c.update(kind="BertBackbone", bilstm_dim=3), "BertBackbone: unknown key `bilstm_dim`"),
    ],
)
def test_invalid_config_is_refused(
    change: Callable[[dict[str, Any]], Any], message: str, folder: Path, tmp_path: Path
) -> None:
    directory = changed(folder / "pretrainer", tmp_path, change)
    with pytest.raises(ConfigError, match=message) as error:
        load_preset(directory)
    assert str(directory) in str(error.value)
