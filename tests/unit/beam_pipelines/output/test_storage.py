"""Files on object stores: both pipelines with all paths except the vocabulary on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.output import storage
from tests.support.beam_pipelines import directory_filesystem  # noqa: F401
from tests.support.beam_pipelines.memory_filesystem import OBJECTS

BUCKET, TREE = "mem://bucket", "tree://cluster/user"


@pytest.fixture(autouse=True)
def bucket() -> dict[str, bytes]:
    OBJECTS.clear()
    return OBJECTS


def test_small_files() -> None:
    path = storage.join(BUCKET, "a", "b.txt")
    assert storage.read(path) is None
    storage.write(path, b"one")
    assert storage.read(path) == b"one"
    assert storage.split(path) == (f"{BUCKET}/a", "b.txt")
    assert storage.names_in(f"{BUCKET}/a") == {"b.txt": 3}
    assert storage.names_in(f"{BUCKET}/none") == {}
    assert storage.read_file(path, lambda local: (local.name, local.read_bytes())) == ("b.txt", b"one")
    with pytest.raises(FileNotFoundError, match="mem://bucket/none"):
        storage.read_file(f"{BUCKET}/none", Path.read_bytes)


def test_delete_removes_exactly_one_directory(tmp_path: Path) -> None:
    for base in (BUCKET, str(tmp_path)):
        for name in ("a/1", "a/b/2", "ab/3"):
            storage.write(f"{base}/{name}", b"x")
        storage.delete([f"{base}/a", f"{base}/none"])
        assert storage.read(f"{base}/ab/3") == b"x"
    assert list(OBJECTS) == [f"{BUCKET}/ab/3"]
    assert [path.name for path in tmp_path.iterdir()] == ["ab"]


def test_directories_are_staged_on_this_machine() -> None:
    storage.write_in(f"{BUCKET}/d", lambda folder: (folder / "x.json").write_text("{}"))
    storage.write(f"{BUCKET}/d/large.tfrecord", b"large")
    seen = storage.read_in(f"{BUCKET}/d", lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()})
    assert seen == {"x.json": b"{}"}


@pytest.mark.parametrize("base", [BUCKET, TREE])
def test_a_file_is_replaced(base: str) -> None:
    path = storage.join(base, "a", "b.txt")
    storage.write(path, b"one")
    storage.write(path, b"two")
    assert storage.read(path) == b"two"
    assert storage.names_in(f"{base}/a") == {"b.txt": 3}
