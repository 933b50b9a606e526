"""Directory locks and atomic file writes."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bert_tf.config.files import only_writer, staged_file


def test_one_writer_at_a_time(tmp_path):
    with only_writer(tmp_path, "writing to"):
        refused = pytest.raises(RuntimeError, match=f"another process is reading from {tmp_path}")
        with refused, only_writer(tmp_path, "reading from"):
            pass
        assert list(tmp_path.iterdir()) == []
    with only_writer(tmp_path, "writing to"):
        pass


def test_a_writer_may_wait_for_another_one(tmp_path, monkeypatch, capsys):
    waits, order, flock = threading.Event(), [], fcntl.flock

    def noted(descriptor, operation):
        if operation == fcntl.LOCK_EX:
            waits.set()
        flock(descriptor, operation)

    def second():
        with only_writer(tmp_path, "writing to", wait=True):
            order.append("second")

    monkeypatch.setattr(fcntl, "flock", noted)
    with ThreadPoolExecutor(1) as pool:
        with only_writer(tmp_path, "writing to"):
            future = pool.submit(second)
            assert waits.wait(30)
            order.append("first")
        future.result(30)
    assert order == ["first", "second"]
    assert f"another process is writing to {tmp_path}" in capsys.readouterr().err


def test_file_system_without_locks_is_reported(tmp_path, monkeypatch, caplog):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with only_writer(tmp_path, "writing to"):
        pass
    assert "does not support locks" in caplog.text


def test_other_faults_of_locking_are_raised(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="broken"), only_writer(tmp_path, "writing to"):
        pass


def test_directory_deleted_in_the_meantime_is_not_locked(tmp_path, monkeypatch):
    directory = tmp_path / "directory"
    directory.mkdir()

    def delete(descriptor, operation):
        directory.rmdir()
        directory.mkdir()

    monkeypatch.setattr(fcntl, "flock", delete)
    with pytest.raises(RuntimeError, match=f"just deleted {directory}"), only_writer(directory, "writing to"):
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named(tmp_path, monkeypatch, number):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=f"{os.strerror(number)}: '{tmp_path}/a'"), staged_file(tmp_path / "a"):
        pass
    assert not list(tmp_path.iterdir())
