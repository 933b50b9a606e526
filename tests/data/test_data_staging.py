"""Directories that one process at a time writes to."""

from __future__ import annotations

import errno
import fcntl

import pytest

from bert_tf.data.staging import only_writer


def test_one_writer_at_a_time(tmp_path):
    with only_writer(tmp_path, "writing to"):
        refused = pytest.raises(RuntimeError, match=f"another process is reading from {tmp_path}")
        with refused, only_writer(tmp_path, "reading from"):
            pass
        assert list(tmp_path.iterdir()) == []
    with only_writer(tmp_path, "writing to"):
        pass


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, caplog):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with only_writer(tmp_path, "writing to"):
        pass
    assert "its file system has no locks" in caplog.text


def test_other_faults_of_locking_are_raised(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="broken"), only_writer(tmp_path, "writing to"):
        pass
