"""Packed documents on disk between tokenization and buckets."""

from __future__ import annotations

from pathlib import Path

from beam_pipelines import create_pretraining_data
from beam_pipelines.transforms.packed_documents import SpillToDisk
from tests.support.beam_pipelines.samples import documents, write_corpus, write_vocabulary


def test_spill_files_are_removed(tmp_path, monkeypatch):
    seen = []
    finish = SpillToDisk.finish_bundle

    def watched(step):
        yield from finish(step)
        seen.extend(Path(step._directory).iterdir())

    monkeypatch.setattr(SpillToDisk, "finish_bundle", watched)
    glob, vocabulary = write_corpus(tmp_path / "corpus", documents(40)), write_vocabulary(tmp_path / "vocab.txt")
    flags = [f"--input={glob}", f"--vocabulary={vocabulary}", "--max_seq_length=32", f"--output={tmp_path / 'data'}"]
    create_pretraining_data.run(flags)
    assert seen
    assert not list((tmp_path / "data").glob(".*"))
