"""Checksums of data are verified once; damaged records are named."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from bert_tf.config import DataConfig
from bert_tf.data import verification
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.manifest import Manifest, read_manifest
from bert_tf.data.schema import VERIFIED_NAME
from bert_tf.data.tfrecord.shards import read_shard, write_shard
from bert_tf.data.verification import verified_data, verify_data
from tests.support.data.samples import make_vocabulary, write_directory

SHARD = "train-00001-of-00002.tfrecord"


@pytest.fixture(scope="module")
def source_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    config = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
    write_directory(directory, config, make_vocabulary(), {"train": [9, 8], "validation": [4]})
    return directory


@pytest.fixture
def data(source_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(source_data, tmp_path / "data"))


@pytest.fixture
def hashed_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the files whose checksum was computed."""
    names: list[str] = []
    digest = hashlib.file_digest

    def record_hash(file, name):
        names.append(Path(file.name).name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", record_hash)
    return names


def damage(path: Path, at: int) -> None:
    """Changes one byte but neither size nor modification time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def manifest(data: Path) -> Manifest:
    return read_manifest(data)


def test_checksums_are_compared_once(data: Path, hashed_files: list[str]) -> None:
    verify_data(data, manifest(data))
    assert sorted(hashed_files) == sorted(path.name for path in data.glob("*.tfrecord"))
    verify_data(data, manifest(data))
    assert len(hashed_files) == 3
    (data / SHARD).touch()
    verify_data(data, manifest(data))
    assert hashed_files[3:] == [SHARD]


def test_verification_always_and_never(data: Path, hashed_files: list[str]) -> None:
    verify_data(data, manifest(data))
    damage(data / SHARD, 100)
    verify_data(data, manifest(data), "never")
    verify_data(data, manifest(data), "once")
    with pytest.raises(ValueError, match=SHARD):
        verify_data(data, manifest(data), "always")
    with pytest.raises(ValueError, match="must be one of never, once, always"):
        verify_data(data, manifest(data), "sometimes")


def test_a_damaged_shard_is_refused_with_record_and_place(data: Path) -> None:
    second = 16 + len(next(read_shard(data / SHARD)))
    damage(data / SHARD, second + 20)
    with pytest.raises(ValueError, match=rf"{SHARD}: record 1 at byte {second}: .*`bert-tf data`"):
        verify_data(data, manifest(data))


def test_exchanged_records_are_detected(data: Path) -> None:
    records = list(read_shard(data / SHARD))
    write_shard(data / SHARD, records[::-1])
    with pytest.raises(ValueError, match=rf"{SHARD}: every record is intact, but"):
        verify_data(data, manifest(data))


def test_copied_directory_is_verified_again(data: Path, tmp_path: Path, hashed_files: list[str]) -> None:
    verify_data(data, manifest(data))
    shutil.copytree(data, tmp_path / "copy")
    verify_data(tmp_path / "copy", manifest(data))
    assert len(hashed_files) == 6


@pytest.mark.parametrize("unreadable", [b"", b"[]", b'{"a": 1}'])
def test_unreadable_records_of_verification_are_replaced(
    data: Path, hashed_files: list[str], unreadable: bytes
) -> None:
    (data / VERIFIED_NAME).write_bytes(unreadable)
    verify_data(data, manifest(data))
    assert len(hashed_files) == 3
    assert len(json.loads((data / VERIFIED_NAME).read_bytes())) == 3


def test_read_only_directory_uses_the_cache_of_the_user(data: Path, hashed_files: list[str]) -> None:
    (data / VERIFIED_NAME).mkdir()  # so that no file can replace it
    for _ in range(2):
        verify_data(data, manifest(data))
    assert len(hashed_files) == 3


def test_checksums_are_compared_each_time_if_nothing_is_writable(
    data: Path, hashed_files: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (data / VERIFIED_NAME).mkdir()
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME")
    for _ in range(2):
        verify_data(data, manifest(data))
    assert len(hashed_files) == 6
    assert "compared again by the next run" in caplog.text


def read_with_tensorflow(data: Path) -> None:
    from bert_tf.data.input.tf import pretraining_dataset

    list(pretraining_dataset(data, "train", batch_size=4, seed=0, epochs=1))


def read_with_numpy(data: Path) -> None:
    list(pretraining_batches(data, "train", batch_size=4, seed=0, epochs=1))


@pytest.mark.parametrize("read", [read_with_tensorflow, read_with_numpy])
def test_unreadable_record_is_named(data: Path, read) -> None:
    second = 16 + len(next(read_shard(data / SHARD)))
    damage(data / SHARD, second + 20)
    with (
        pytest.raises(
            ValueError, match=rf"{SHARD}: record 1 at byte {second}: the checksum of its data does not match"
        ),
        verified_data(data, "never"),
    ):
        read(data)


def test_other_errors_are_not_changed(data: Path) -> None:
    with pytest.raises(KeyError), verified_data(data):
        raise KeyError("else")
    assert verification.VERIFY == ("never", "once", "always")
