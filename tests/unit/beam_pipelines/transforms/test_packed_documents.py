"""Packed documents on disk between tokenization and buckets."""

from __future__ import annotations

import errno
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.transforms import packed_documents
from beam_pipelines.transforms.packed_documents import SpillToDisk, mark_unwanted, pack, read_spilled, unpack
from bert_tf.data.examples.build import TokenizedDocument

CHUNKS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=30)


def chunk(number: int, tokens: int) -> bytes:
    return pack([TokenizedDocument(number, np.arange(tokens, dtype=np.int32), np.array([tokens], np.int32))], 100)


def put(step: SpillToDisk, elements: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    """Returns the references of one bundle by bucket."""
    step.start_bundle()
    found = [each for element in elements for each in step.process(element)]
    found += [windowed.value for windowed in step.finish_bundle()]
    by_bucket = defaultdict(list)
    for bucket, reference in found:
        by_bucket[bucket].append(reference)
    return by_bucket


@settings(deadline=None)
@given(CHUNKS, st.sampled_from([1, 300, 1 << 20]), st.sampled_from([1, 500, 1 << 20]))
def test_spilled_chunks_are_read_back_by_bucket(tmp_path_factory, chunks, run_bytes, waiting_bytes):
    elements = [(bucket, chunk(number, tokens)) for number, (bucket, tokens) in enumerate(chunks)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(packed_documents, "_RUN_BYTES", run_bytes)
        patched.setattr(packed_documents, "_WAITING_BYTES", waiting_bytes)
        references = put(SpillToDisk(str(tmp_path_factory.mktemp("aside"))), elements)
    assert set(references) == {bucket for bucket, _ in elements}
    for bucket, own in references.items():
        assert list(read_spilled(own)) == [data for number, data in elements if number == bucket]


def test_other_chunks_pass_through(tmp_path):
    unwanted = mark_unwanted(np.array([7], "<i8").tobytes())
    references = put(SpillToDisk(str(tmp_path)), [(0, chunk(7, 3)), (0, chunk(8, 2))])[0]
    gathered = unpack(read_spilled([unwanted, *references]))
    assert [document.document_id for document in gathered.documents] == [7, 8]
    assert gathered.unwanted == {7}


def test_references_are_small_and_empty_bundles_write_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    references = put(SpillToDisk(str(tmp_path / "a")), [(0, chunk(number, 1000)) for number in range(300)])[0]
    assert sum(map(len, references)) < 300 * 2000 / 50
    assert len(list((tmp_path / "a").iterdir())) == 1
    assert put(SpillToDisk(str(tmp_path / "b")), []) == {}
    assert not (tmp_path / "b").exists()


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    class Full:
        def tell(self) -> int:
            return 0

        def writelines(self, lines: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda *_: Full())
    step = SpillToDisk(str(tmp_path))
    step.start_bundle()
    list(step.process((0, chunk(1, 1))))
    with pytest.raises(OSError, match=r"No space left on device: .*\.chunks"):
        list(step.finish_bundle())
