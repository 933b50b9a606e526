"""Version folders: numbers with leading zeros, duplicates, and other folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.export.versions import check_model_dir, latest_version, version_folders


def test_numbers_may_have_leading_zeros(tmp_path: Path) -> None:
    for name in ("2", "00000006", "006", "010", "9223372036854775808", ".staging-11", "x"):
        (tmp_path / name).mkdir()
    (tmp_path / "12").write_bytes(b"")
    assert list(version_folders(tmp_path)) == [2, 6, 10]
    assert [folder.name for folder in version_folders(tmp_path)[6]] == ["006", "00000006"]
    assert latest_version(tmp_path).name == "010"
    with pytest.raises(ValueError, match="contain only versions. Received: 12, 9223372036854775808, x"):
        check_model_dir(tmp_path)


def test_missing_directory_has_no_versions(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(FileNotFoundError, match="holds no exported model"):
            latest_version(path)
        with pytest.raises(OSError, match=path.name):
            version_folders(path)
