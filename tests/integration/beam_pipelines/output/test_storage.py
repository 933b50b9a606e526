"""Files on object stores: both pipelines with all paths except the vocabulary on an object store."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary, create_pretraining_data
from tests.support.beam_pipelines import directory_filesystem  # noqa: F401
from tests.support.beam_pipelines.memory_filesystem import OBJECTS, OPENED
from tests.support.beam_pipelines.samples import contents, documents, write_corpus, write_vocabulary

BUCKET, TREE = "mem://bucket", "tree://cluster/user"


@pytest.fixture(autouse=True)
def bucket() -> dict[str, bytes]:
    OBJECTS.clear()
    return OBJECTS


@pytest.fixture
def corpora(tmp_path: Path, bucket: dict[str, bytes]) -> tuple[str, str]:
    """Writes the same corpus to this machine and to the bucket."""
    local = write_corpus(tmp_path / "corpus", documents(200))
    for path in (tmp_path / "corpus").iterdir():
        bucket[f"{BUCKET}/corpus/{path.name}"] = path.read_bytes()
    return local, f"{BUCKET}/corpus/{Path(local).name}"


def remote_contents(directory: str) -> dict[str, str]:
    """Returns the same as `contents` for a directory in the bucket."""
    found = {path.removeprefix(f"{directory}/"): content for path, content in OBJECTS.items()}
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in found.items()
        if not name.startswith("mem://") and name != "run.json"
    }


def test_data_in_a_bucket_equals_that_of_a_local_run(
    tmp_path: Path, corpora: tuple[str, str], bucket: dict[str, bytes]
) -> None:
    vocabulary = write_vocabulary(tmp_path / "vocab.txt")
    bucket[f"{BUCKET}/vocab.txt"] = vocabulary.read_bytes()
    flags = ["--max_seq_length=32", "--num_shards=3"]
    local, remote = corpora
    create_pretraining_data.run(
        [*flags, f"--vocabulary={vocabulary}", f"--input={local}", f"--output={tmp_path / 'data'}"]
    )
    summary = create_pretraining_data.run(
        [*flags, f"--vocabulary={BUCKET}/vocab.txt", f"--input={remote}", f"--output={BUCKET}/data"]
    )
    assert summary["documents_read"] == 200
    here, there = contents(tmp_path / "data"), remote_contents(f"{BUCKET}/data")
    shards = {name for name in here if name.endswith(".tfrecord")}
    assert {name: there[name] for name in shards} == {name: here[name] for name in shards}
    assert set(there) == set(here), "no report of a shard stays behind"
    assert bucket[f"{BUCKET}/data/report.html"].startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("base", [BUCKET, TREE])
def test_a_run_on_a_store_resumes_without_reading_its_shards(
    tmp_path: Path, corpora: tuple[str, str], bucket: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    vocabulary, output = write_vocabulary(tmp_path / "vocab.txt"), f"{base}/data"
    flags = [f"--vocabulary={vocabulary}", "--max_seq_length=32", f"--input={corpora[0]}", f"--output={output}"]
    finish, show = create_pretraining_data._finish, create_pretraining_data._show
    monkeypatch.setattr(create_pretraining_data, "_show", lambda *_: None)
    monkeypatch.setattr(create_pretraining_data, "_finish", lambda _: exec("raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        create_pretraining_data.run([*flags, "--num_shards=3"])
    shards = {path: content for path, content in bucket.items() if path.endswith(".tfrecord")}
    damaged = min(shards)
    bucket[damaged] = bytes([shards[damaged][0] ^ 1]) + shards[damaged][1:]
    monkeypatch.setattr(create_pretraining_data, "_finish", finish)
    OPENED.clear()
    create_pretraining_data.run([*flags, "--num_shards=3"])
    assert not [path for path in OPENED if path.endswith(".tfrecord")]
    assert shards == {path: bucket[path] for path in shards}
    monkeypatch.setattr(create_pretraining_data, "_show", show)
    create_pretraining_data.run([*flags, "--num_shards=3"])
    files = {path.removeprefix(f"{output}/") for path in bucket if path.startswith(output)}
    assert {name for name in files if not name.endswith(".tfrecord")} == {
        "manifest.json", "report.html", "run.json", "vocab.txt"
    }  # fmt: skip


def test_vocabulary_ignores_counts_of_a_killed_run(
    tmp_path: Path, corpora: tuple[str, str], bucket: dict[str, bytes]
) -> None:
    local, remote = corpora
    flags = ["--vocabulary_size=100"]
    build_vocabulary.run([*flags, f"--input={local}", f"--output={tmp_path / 'vocab.txt'}"])
    bucket[f"{BUCKET}/v/vocab.txt.counts/99999.counts"] = b"left by a killed run"
    build_vocabulary.run([*flags, f"--input={remote}", f"--output={BUCKET}/v/vocab.txt"])
    assert bucket[f"{BUCKET}/v/vocab.txt"] == (tmp_path / "vocab.txt").read_bytes()
    assert not [path for path in bucket if ".counts" in path]
