"""Mirrors of training data: shards are fetched when they are read, compared with the manifest, and bounded in size."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bert_tf.config import DataConfig
from bert_tf.data.input.numpy import pretraining_batches
from bert_tf.data.manifest import open_data, read_manifest, write_manifest
from bert_tf.data.tfrecord.shards import write_shard
from bert_tf.storage import Store, StoreError, data_path, mirrors
from bert_tf.storage.mirrors import Mirror
from tests.support.data.samples import make_vocabulary, write_directory
from tests.support.storage.faulty import CALLS, FAULTS, truncated_download

VOCABULARY = make_vocabulary()
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5)
SIZES = {"train": [3] * 20, "validation": [4]}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory on this machine."""
    directory = tmp_path_factory.mktemp("local") / "data"
    directory.mkdir()
    write_directory(directory, CONFIG, VOCABULARY, SIZES)
    return directory


@pytest.fixture
def url(bucket: str, local: Path) -> str:
    """The same data on a store."""
    mirrors._mirrored.cache_clear()
    store = Store(f"{bucket}/data")
    for path in local.iterdir():
        store.upload(path, path.name)
    CALLS.clear()
    return store.url


def fetched() -> list[str]:
    return [path.rpartition("/")[2] for call, path in CALLS if call == "get_file" and path.endswith(".tfrecord")]


def cached(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.tfrecord"))


def test_shards_are_fetched_once_when_they_are_read(url: str, local: Path) -> None:
    manifest, vocabulary = open_data(url)
    assert manifest == read_manifest(local) and vocabulary == VOCABULARY
    assert fetched() == []
    assert len(list(pretraining_batches(url, "validation", batch_size=2, seed=1, training=False))) == 2
    assert fetched() == [manifest.shards["validation"][0].name]
    assert len(list(pretraining_batches(url, "train", batch_size=2, seed=1, epochs=2))) == 60
    assert len(fetched()) == len(set(fetched())) == 21


def test_shards_before_the_first_step_are_not_fetched(url: str) -> None:
    # Shards are skipped by whole windows: none of this small split.
    batches = pretraining_batches(url, "train", batch_size=3, seed=1, epochs=1, start_step=19)
    assert len(list(batches)) == 1


def test_readers_of_one_machine_fetch_a_shard_once(url: str) -> None:
    directory = data_path(url)
    shard = read_manifest(directory).shards["train"][0]
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: Mirror(directory, url).fetch(shard), range(8)))
    assert len(paths) == 1 and fetched() == [shard.name]


@pytest.mark.parametrize("fault", [truncated_download, TimeoutError()])
def test_a_shard_that_arrives_damaged_is_fetched_again(url: str, fault: object) -> None:
    directory = data_path(url)
    shard = read_manifest(directory).shards["train"][0]
    FAULTS["get_file"] = [fault]  # type: ignore[list-item]
    path = Mirror.at(directory).fetch(shard)  # type: ignore[union-attr]
    assert path.stat().st_size == shard.bytes


def test_a_shard_that_differs_from_the_manifest_is_refused(url: str, cache: Path) -> None:
    directory = data_path(url)
    shard = read_manifest(directory).shards["train"][0]
    Store(url).write(shard.name, b"x" * shard.bytes)
    with pytest.raises(ValueError, match=f"{url}/{shard.name}: SHA-256"):
        Mirror.at(directory).fetch(shard)  # type: ignore[union-attr]
    assert cached(cache) == []


def test_a_missing_shard_is_named(url: str) -> None:
    directory = data_path(url)
    shard = read_manifest(directory).shards["train"][0]
    Store(url).delete(shard.name)
    with pytest.raises(FileNotFoundError, match=f"{shard.name} is missing, but the manifest lists it"):
        Mirror.at(directory).fetch(shard)  # type: ignore[union-attr]


def test_a_lost_connection_ends_the_reader(url: str) -> None:
    data_path(url)
    FAULTS["get_file"] = [ConnectionResetError()] * 9
    with pytest.raises(StoreError, match="no success after 3 attempts"):
        list(pretraining_batches(url, "train", batch_size=2, seed=1, epochs=1))


def test_the_cache_is_bounded_and_least_recently_used_shards_leave_first(
    url: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "_KEPT", 2)
    directory = data_path(url)
    shards = read_manifest(directory).shards["train"]
    monkeypatch.setenv("BERT_TF_DATA_CACHE_BYTES", str(sum(shards[number].bytes for number in (0, 3, 4))))
    mirror = Mirror(directory, url)
    for shard in (*shards[:3], shards[0], *shards[3:5]):
        mirror.fetch(shard)
    assert set(cached(cache)) == {mirror.path(shards[number]) for number in (0, 3, 4)}
    monkeypatch.setenv("BERT_TF_DATA_CACHE_BYTES", "0")
    mirror.fetch(shards[5])
    assert set(cached(cache)) == {mirror.path(shards[number]) for number in (4, 5)}


def test_a_full_disk_drops_other_shards_and_then_names_the_cache(
    url: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "_KEPT_ON_FULL_DISK", 1)
    directory = data_path(url)
    shards = read_manifest(directory).shards["train"]
    mirror = Mirror(directory, url)
    for shard in shards[:4]:
        mirror.fetch(shard)
    full = OSError(errno.ENOSPC, "No space left on device")
    FAULTS["get_file"] = [full]
    mirror.fetch(shards[4])
    assert set(cached(cache)) == {mirror.path(shards[number]) for number in (3, 4)}
    FAULTS["get_file"] = [full, full]
    with pytest.raises(OSError, match="BERT_TF_CACHE"):
        mirror.fetch(shards[5])


def test_new_data_at_the_url_is_read(url: str, local: Path, tmp_path: Path) -> None:
    before = data_path(url)
    manifest = read_manifest(before)
    Mirror(before, url).fetch(manifest.shards["validation"][0])
    changed = write_shard(tmp_path / manifest.shards["validation"][0].name, [b"other"])
    write_manifest(replace(manifest, shards={**manifest.shards, "validation": (changed,)}), tmp_path)
    for path in tmp_path.iterdir():
        if path.is_file():
            Store(url).upload(path, path.name)
    mirrors._mirrored.cache_clear()
    assert Mirror(data_path(url), url).fetch(changed).read_bytes() == (tmp_path / changed.name).read_bytes()


def test_data_of_several_lengths(bucket: str, local: Path, tmp_path: Path) -> None:
    from bert_tf.data.manifest import data_directories

    mirrors._mirrored.cache_clear()
    for path in local.iterdir():
        Store(f"{bucket}/both").upload(path, f"length-32/{path.name}")
    (directory,) = data_directories(f"{bucket}/both")
    assert directory.name == "length-32" and Mirror.at(directory).url == f"{bucket}/both/length-32"  # type: ignore[union-attr]


def test_what_does_not_exist_is_named(bucket: str) -> None:
    with pytest.raises(FileNotFoundError, match="must be a data directory"):
        data_path(f"{bucket}/no_data")
