"""SHA-256 of the files of a version."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.export.digests import check_digests, file_digests
from bert_tf.export.metadata import MODEL_CARD, WARMUP


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("saved_model.pb", "variables/variables.index", str(MODEL_CARD)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_whole_versions_pass(folder: Path) -> None:
    digests = file_digests(folder)
    assert set(digests) == {"saved_model.pb", "variables/variables.index"}
    check_digests(folder, digests)
    (folder / MODEL_CARD).write_text("changed")
    (folder / "assets.extra" / "notes.txt").write_text("added")
    check_digests(folder, digests)


@pytest.mark.parametrize("name", [str(WARMUP), "assets/other.txt", "variables/more"])
def test_added_files_are_named(name: str, folder: Path) -> None:
    digests = file_digests(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("x")
    with pytest.raises(ValueError, match=f"{name}: added since the export"):
        check_digests(folder, digests)


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside", "/dev/zero", "none"])
def test_files_outside_are_not_read(name: str, folder: Path) -> None:
    (folder.parent / "outside").write_text("secret")
    with pytest.raises(ValueError, match="names a file that is not there"):
        check_digests(folder, file_digests(folder) | {name: "0"})


def test_changed_files_are_named_without_their_digest(folder: Path) -> None:
    digests = file_digests(folder)
    (folder / "saved_model.pb").write_text("other")
    with pytest.raises(ValueError, match="saved_model.pb: changed since the export") as refused:
        check_digests(folder, digests)
    assert file_digests(folder)["saved_model.pb"] not in str(refused.value)
