"""Missing files of a version are detected before it is loaded; damaged files are errors of the loader."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.export.metadata import MODEL_CARD
from bert_tf.serving.models.batching import ONE_BY_ONE
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.version_files import IncompleteVersionError, check_complete, folder_signature

SHARD, INDEX = "variables/variables.data-00000-of-00001", "variables/variables.index"


@pytest.fixture
def copied(exported: Callable[[str], Path], tmp_path: Path) -> Path:
    """A version whose files may be changed."""
    return shutil.copytree(exported("classifier"), tmp_path / "1")


def test_version_with_all_files_is_complete(exported: Callable[[str], Path]) -> None:
    check_complete(exported("classifier"))


@pytest.mark.parametrize("name", ["saved_model.pb", INDEX, SHARD])
def test_a_missing_file_is_named(name: str, copied: Path) -> None:
    (copied / name).unlink()
    with pytest.raises(IncompleteVersionError, match=f"incomplete: .*{name[:20]}.* is missing"):
        check_complete(copied)


def test_missing_shard_is_detected(copied: Path) -> None:
    (copied / SHARD).rename(copied / "variables/variables.data-00001-of-00002")
    with pytest.raises(IncompleteVersionError, match=r"variables\.data-\* is missing"):
        check_complete(copied)


def test_a_missing_asset_is_named(tmp_path: Path) -> None:
    saved = saved_model_pb2.SavedModel()
    saved.meta_graphs.add().asset_file_def.add(filename="vocab.txt")
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(IncompleteVersionError, match=r"assets/vocab\.txt is missing"):
        check_complete(tmp_path)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/vocab.txt").write_bytes(b"")
    check_complete(tmp_path)


def test_truncated_variables_are_incomplete_and_never_loaded(copied: Path) -> None:
    os.truncate(copied / SHARD, 10000)
    with pytest.raises(IncompleteVersionError, match="shorter than its index says"):
        check_complete(copied)
    check_refused(copied, "not a readable SavedModel: Read less bytes than requested")


def check_refused(folder: Path, message: str) -> None:
    """Checks that a version with changed variables is refused by its model card, and by the loader without a card."""
    with pytest.raises(ValueError, match=f"{SHARD}: changed since the export"):
        LoadedVersion(folder, ONE_BY_ONE)
    (folder / MODEL_CARD).unlink()
    with pytest.raises(ValueError, match=message):
        LoadedVersion(folder, ONE_BY_ONE)


def test_corrupted_variables_are_never_loaded(copied: Path) -> None:
    content = bytearray((copied / SHARD).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / SHARD).write_bytes(content)
    check_complete(copied)
    check_refused(copied, "not a readable SavedModel: .*[Cc]hecksum does not match")


@pytest.mark.parametrize("name", ["saved_model.pb", INDEX])
def test_unreadable_files_are_left_to_the_loader(name: str, copied: Path) -> None:
    os.truncate(copied / name, 100)
    check_complete(copied)


def test_fingerprint_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"one")
    (tmp_path / "link").symlink_to("nowhere")
    seen = [folder_signature(tmp_path)]
    assert folder_signature(tmp_path) == seen[0]
    (tmp_path / "a/b/file").write_bytes(b"longer")
    seen.append(folder_signature(tmp_path))
    os.utime(tmp_path / "a/b/file", ns=(1, 1))
    seen.append(folder_signature(tmp_path))
    (tmp_path / "a/b/file").rename(tmp_path / "a/file")
    seen.append(folder_signature(tmp_path))
    assert len(set(seen)) == 4
