"""Locks of the cache: no links, no files of other users."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from bert_tf.storage.cache import locked


def test_a_lock_keeps_others_out(tmp_path: Path) -> None:
    with locked(tmp_path / "new"), (tmp_path / "new" / ".lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "new" / ".lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / ".lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / ".lock").symlink_to(precious)
    with pytest.raises(OSError, match=r"no link; set BERT_TF_CACHE.*\.lock"), locked(tmp_path):
        pass
    assert precious.read_text() == "kept"


def test_the_lock_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(tmp_path):
        pass
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(OSError, match="must be a file of this user"), locked(tmp_path):
        pass
