"""Leases on the files of a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.storage.leases import Lease, LeaseError
from bert_tf.storage.local import LocalStore


def test_a_file_is_created_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.read("a") is None
    store.write("a", b"first", create=True)
    with pytest.raises(FileExistsError):
        store.write("a", b"second", create=True)
    assert store.read("a") == b"first"
    store.write("a", b"third")
    assert store.read("a") == b"third"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    store.delete("a")
    store.delete("a")
    assert store.read("a") is None


def test_a_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    store, waited = LocalStore(tmp_path), []
    first, second = (Lease(store, "run", token, waited.append) for token in ("first", "second"))
    first.acquire()
    with pytest.raises(LeaseError, match="another process"):
        second.acquire(wait=False)
    assert waited == []
    first.release()
    second.acquire(wait=False)
    second.release()


def test_only_the_expected_file_is_replaced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write("a", b"first")
    seen = store.info("a")
    store.write("a", b"second", replaces=seen)
    with pytest.raises(FileExistsError):
        store.write("a", b"third", replaces=seen)
    assert store.read("a") == b"second"
    assert store.info("b") is None
