"""Checkpoints of other programs as presets, without `bert-tf convert`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_tf.config import ConfigError
from bert_tf.conversion import Options
from bert_tf.conversion.formats.registry import form, read_checkpoint
from bert_tf.models import BertBackbone, BertPretrainer, BertTextClassifier, load_backbone, load_preset
from bert_tf.models.preprocessors.text import BertTextPreprocessor
from bert_tf.models.preset_sources import open_preset
from tests.support.paths import TESTDATA

PRETRAINED, CLASSIFIER = TESTDATA / "huggingface_pretraining", TESTDATA / "huggingface_sequence_classification"


@pytest.mark.parametrize(
    "name",
    [
        "huggingface_sequence_classification",
        "huggingface_masked_lm",
        "google_tf1_pretrained",
        "keras_hub_classifier",
        "model_garden_spans",
    ],
)
def test_it_equals_the_converted_preset(name: str, tmp_path: Path) -> None:
    form("preset").write(read_checkpoint(TESTDATA / name), tmp_path / "preset", Options())
    source, converted = open_preset(TESTDATA / name), open_preset(tmp_path / "preset")
    # Only files have a digest.
    assert (source.header, source.task) == (replace(converted.header, weights_sha256=""), converted.task)
    assert source.vocabulary == converted.vocabulary
    preset, other = load_preset(TESTDATA / name), load_preset(tmp_path / "preset")
    assert (preset.kind, preset.info) == (other.kind, other.info)
    for weight, expected in zip(preset.model.weights, other.model.weights, strict=True):
        assert weight.path == expected.path
        np.testing.assert_array_equal(weight, expected)


def test_the_identity_of_weights_does_not_depend_on_the_directory(tmp_path: Path) -> None:
    first, second = (Path(shutil.copytree(PRETRAINED, tmp_path / name)) for name in "ab")
    assert open_preset(first).weights.sha256() == open_preset(second).weights.sha256()
    assert open_preset(first).weights.sha256() != open_preset(TESTDATA / "huggingface_masked_lm").weights.sha256()


def test_one_note_names_format_and_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shutil.copytree(PRETRAINED, tmp_path / "other")
    assert type(load_preset(f"hf:{path}").model) is BertPretrainer
    (note,) = capsys.readouterr().err.splitlines()
    assert f"{path} from the format huggingface" in note
    assert "bert-tf convert" in note and "new:" not in note and "left out" not in note
    load_preset(path)
    assert capsys.readouterr().err == ""
    load_backbone(path)
    assert "left out: mlm_logits, nsp_logits)" in capsys.readouterr().err
    BertTextClassifier.from_preset(path, num_classes=2)
    assert "new: logits; left out: mlm_logits, nsp_logits)" in capsys.readouterr().err


def test_the_head_is_kept_if_the_classes_agree() -> None:
    kept = BertTextClassifier.from_preset(CLASSIFIER)
    assert (kept.num_classes, kept.preprocessor.labels) == (3, ("bad", "fair", "good"))
    expected = load_preset(CLASSIFIER).model
    np.testing.assert_array_equal(kept.get_layer("logits").kernel, expected.get_layer("logits").kernel)
    other = BertTextClassifier.from_preset(CLASSIFIER, num_classes=4)
    assert other.num_classes == 4
    np.testing.assert_array_equal(other.backbone.weights[0], expected.backbone.weights[0])


def test_saving_needs_nothing_else(tmp_path: Path) -> None:
    model = BertTextClassifier.from_preset(CLASSIFIER)
    model.save_to_preset(tmp_path / "saved")
    saved = BertTextClassifier.from_preset(tmp_path / "saved")
    assert saved.preprocessor.labels == model.preprocessor.labels
    for weight, expected in zip(saved.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_other_readers_of_presets_take_it() -> None:
    assert isinstance(BertBackbone.from_preset(f"hf:{PRETRAINED}"), BertBackbone)
    with pytest.raises(ConfigError, match="expected a preset of a BertPretrainer. Received: BertTextClassifier"):
        BertPretrainer.from_preset(CLASSIFIER)
    assert BertTextPreprocessor.from_preset(CLASSIFIER).labels == ("bad", "fair", "good")


def test_without_a_vocabulary_it_has_to_be_converted(tmp_path: Path) -> None:
    path = Path(shutil.copytree(PRETRAINED, tmp_path / "other"))
    (path / "vocab.txt").unlink()
    with pytest.raises(ConfigError, match=r"bert-tf convert --source huggingface .*other .*--vocabulary"):
        load_preset(path)


def test_damage_is_a_configuration_error(tmp_path: Path) -> None:
    path = Path(shutil.copytree(PRETRAINED, tmp_path / "other"))
    (path / "model.safetensors").write_bytes(b"?" * 100)
    with pytest.raises(ConfigError, match="safetensors"):
        load_preset(path)
