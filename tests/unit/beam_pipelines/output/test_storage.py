"""Files on object stores: through Beam, on a file system in memory, and through `bert_tf.storage`, as those of S3."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

import fsspec
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import HadoopFileSystemOptions, PipelineOptions

from beam_pipelines import build_vocabulary, create_pretraining_data
from beam_pipelines.output import storage
from bert_tf.config import ConfigError
from tests.support.beam_pipelines import directory_filesystem  # noqa: F401
from tests.support.beam_pipelines.memory_filesystem import OBJECTS, MemoryFileSystem

BUCKET, TREE, STORE = "mem://bucket", "tree://cluster/user", "memory://bucket"


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Empties all buckets; `STORE` is used in the place of S3."""
    OBJECTS.clear()
    monkeypatch.setattr(storage, "_S3", ("memory://",))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    return OBJECTS


@pytest.mark.parametrize("base", [BUCKET, STORE])
def test_small_files(base: str) -> None:
    path = storage.join(base, "a", "b.txt")
    assert storage.read(path) is None
    assert not storage.exists(path)
    assert storage.sha256(path) is None
    storage.write(path, b"one")
    assert storage.read(path) == b"one"
    assert storage.exists(path)
    assert storage.sha256(path) == hashlib.sha256(b"one").hexdigest()
    before = storage.checksum(path)
    assert before
    assert storage.split(path) == (f"{base}/a", "b.txt")
    storage.write(f"{base}/a/deeper/c.txt", b"c")
    assert storage.names_in(f"{base}/a") == {"b.txt": 3}
    assert storage.names_in(f"{base}/none") == {}
    assert storage.read_file(path, lambda local: (local.name, local.read_bytes())) == ("b.txt", b"one")
    storage.write(path, b"two")
    assert storage.checksum(path) != before
    with pytest.raises(FileNotFoundError, match=f"{base}/none"):
        storage.read_file(f"{base}/none", Path.read_bytes)


@pytest.mark.parametrize("base", [BUCKET, STORE])
def test_a_glob_is_matched_within_a_folder(base: str) -> None:
    for name in ("in/b.txt", "in/a.txt", "in/c.json", "in/deeper/d.txt"):
        storage.write(f"{base}/{name}", name.encode())
    found = [(file.path, file.size_in_bytes) for file in storage.match(f"{base}/in/*.txt")]
    assert found == [(f"{base}/in/a.txt", 8), (f"{base}/in/b.txt", 8)]
    assert [file.path for file in storage.match(f"{base}/in/c.json")] == [f"{base}/in/c.json"]
    assert storage.match(f"{base}/none/*") == []


@pytest.mark.parametrize("base", [BUCKET, STORE])
def test_a_file_is_read_from_any_position(base: str) -> None:
    storage.write(f"{base}/a", b"0123456789")
    with storage.opened(f"{base}/a") as file:
        assert file.seek(0, 2) == 10
        file.seek(4)
        assert file.read(3) == b"456"


class FileSystemWithFlags(MemoryFileSystem):
    """As HDFS, refuses to work without the options of a pipeline."""

    def __init__(self, pipeline_options: PipelineOptions | None) -> None:
        if pipeline_options is None or not pipeline_options.view_as(HadoopFileSystemOptions).hdfs_host:
            raise ValueError("pipeline_options is not set")
        super().__init__(pipeline_options)

    @classmethod
    def scheme(cls) -> str:
        return "flags"


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (build_vocabulary, r"--input flags://bucket/\*: matches no file"),
        (create_pretraining_data, "flags://bucket/vocab.txt: no such file"),
    ],
)
def test_file_systems_have_their_flags_before_a_pipeline(
    pipeline: ModuleType, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)
    flags = ["--input=flags://bucket/*", f"--output={tmp_path}/out", "--hdfs_host=host"]
    flags.append("--vocabulary_size=9" if pipeline is build_vocabulary else "--vocabulary=flags://bucket/vocab.txt")
    with pytest.raises((ConfigError, FileNotFoundError), match=message):
        pipeline.run(flags)


@pytest.mark.parametrize("output", ["s3://bucket", "s3://bucket/", "gs://bucket/folder/"])
def test_a_vocabulary_needs_a_file_name(output: str) -> None:
    with pytest.raises(ConfigError, match=f"must be the URL of a file.*Received: {output}"):
        build_vocabulary.run(["--input=none", f"--output={output}", "--vocabulary_size=9"])


def test_delete_removes_exactly_one_directory(tmp_path: Path) -> None:
    for base in (BUCKET, STORE, str(tmp_path)):
        for name in ("a/1", "a/b/2", "ab/3"):
            storage.write(f"{base}/{name}", b"x")
        storage.delete([f"{base}/a", f"{base}/none"])
        assert storage.read(f"{base}/ab/3") == b"x"
    assert list(OBJECTS) == [f"{BUCKET}/ab/3"]
    assert [path.name for path in tmp_path.iterdir()] == ["ab"]


@pytest.mark.parametrize("base", [BUCKET, STORE])
def test_directories_are_staged_on_this_machine(base: str) -> None:
    storage.write_in(f"{base}/d", lambda folder: (folder / "x.json").write_text("{}"))
    storage.write(f"{base}/d/large.tfrecord", b"large")
    seen = storage.read_in(f"{base}/d", lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()})
    assert seen == {"x.json": b"{}"}


@pytest.mark.parametrize("base", [BUCKET, TREE, STORE])
def test_a_file_is_replaced(base: str) -> None:
    path = storage.join(base, "a", "b.txt")
    storage.write(path, b"one")
    storage.write(path, b"two")
    assert storage.read(path) == b"two"
    assert storage.names_in(f"{base}/a") == {"b.txt": 3}
