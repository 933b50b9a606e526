"""Outputs on HDFS through fsspec: a file system of Arrow with directories, here a local one under the name `hdfs`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bert_tf.storage import Store, data_path, input_path, publish, stores, working_copy

arrow_fs = pytest.importorskip("pyarrow.fs")
arrow = pytest.importorskip("fsspec.implementations.arrow")
NAMES = ("model.npz", "state.json")


class FakeHadoop(arrow.ArrowFSWrapper):
    """As fsspec's `hdfs`, over a folder of this machine."""

    cachable = False
    root = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(arrow_fs.SubTreeFileSystem(self.root, arrow_fs.LocalFileSystem()))


@pytest.fixture
def cluster(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty directory."""
    monkeypatch.setattr(stores, "DELAYS", ())
    (tmp_path / "hdfs/user").mkdir(parents=True)
    monkeypatch.setattr(FakeHadoop, "root", str(tmp_path / "hdfs"))
    former = fsspec.get_filesystem_class("hdfs")
    fsspec.register_implementation("hdfs", FakeHadoop, clobber=True)
    yield "hdfs://namenode:8020/user"
    fsspec.register_implementation("hdfs", former, clobber=True)


def write_step(run: Path, step: int) -> Path:
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text(f"weights {step}")
    return folder


def test_a_run_is_uploaded_and_resumed_elsewhere(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        # Each step on another machine.
        monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / f"cache{step}"))
        with working_copy(f"{cluster}/runs/laptop") as run:
            if step == 2:
                shutil.rmtree(run / "checkpoints/step-00000001")
            publish(write_step(run, step))
            (run / "history.jsonl").write_text(f"{step}")
    store = Store(f"{cluster}/runs/laptop")
    assert list(store.files()) == [*(f"checkpoints/step-00000002/{name}" for name in NAMES), "history.jsonl"]
    assert store.read("history.jsonl") == b"2"


def test_two_writers_are_kept_apart(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with working_copy(f"{cluster}/run"):
        store = Store(cluster)
        first = store.info(".run.lease")
        store.write(".run.lease", b"{}", replaces=first)
        with pytest.raises(FileExistsError):
            store.write(".run.lease", b"{ }", replaces=first)
        with pytest.raises(FileExistsError):
            store.write(".run.lease", b"", create=True)
        monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "other"))
        monkeypatch.setattr("bert_tf.storage.leases.LOOK", 0.0001)
        monkeypatch.setattr("bert_tf.storage.leases.END", 0.0001)
        with working_copy(f"{cluster}/run"):
            pass
        assert store.read(".run.lease") is None


def test_inputs_are_read(cluster: str) -> None:
    store = Store(f"{cluster}/data")
    store.write("manifest.json", b"{}")
    store.write("vocab.txt", b"[PAD]")
    assert (data_path(store.url) / "vocab.txt").read_text() == "[PAD]"
    assert input_path(f"{cluster}/data/vocab.txt").read_text() == "[PAD]"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        input_path(f"{cluster}/nothing")
