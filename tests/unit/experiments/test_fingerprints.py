"""Fingerprints of inputs: contents count, places do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bert_tf.config import ConfigError
from bert_tf.experiments.fingerprints import fingerprint


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    directory = tmp_path / "run" / "preset"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"format_version": 2}))
    (directory / "model.weights.h5").write_bytes(b"weights")
    return directory


def test_all_names_of_a_preset_are_equal(preset: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(preset, tmp_path / "copy")
    assert fingerprint(preset) == fingerprint(preset.parent) == fingerprint(copy)
    (copy / "model.weights.h5").write_bytes(b"other")
    assert fingerprint(preset) != fingerprint(copy)


def test_a_tensorflow_checkpoint_by_its_prefix(tmp_path: Path) -> None:
    for name in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "other.ckpt.index"):
        (tmp_path / name).write_bytes(name.encode())
    before = fingerprint(tmp_path / "bert_model.ckpt")
    (tmp_path / "other.ckpt.index").write_bytes(b"new")
    assert fingerprint(tmp_path / "bert_model.ckpt") == before
    (tmp_path / "bert_model.ckpt.data-00000-of-00001").write_bytes(b"new")
    assert fingerprint(tmp_path / "bert_model.ckpt") != before


def test_the_manifest_stands_for_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "verified").write_text("yes")
    before = fingerprint(tmp_path)
    (tmp_path / "verified").unlink()
    assert fingerprint(tmp_path) == before
    (tmp_path / "manifest.json").write_text('{"shards": []}')
    assert fingerprint(tmp_path) != before


def test_other_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file"):
        fingerprint(tmp_path)
