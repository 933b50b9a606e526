"""One run at a time writes to an output directory; workers of earlier runs write nothing."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from beam_pipelines.errors import PipelineError
from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.runners import worker_main
from beam_pipelines.transforms.packed_documents import SpillToDisk, pack
from bert_tf.data.examples.build import TokenizedDocument
from tests.support.beam_pipelines.memory_filesystem import OBJECTS


@pytest.fixture(params=["local", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    OBJECTS.clear()
    return str(tmp_path / "data") if request.param == "local" else "mem://bucket/data"


def test_worker_of_an_earlier_run_cannot_write(place: str) -> None:
    older, newer = RunOutput(place), RunOutput(place)
    older.begin()
    older.write(storage.join(place, "one"), b"1")
    newer.begin()
    with pytest.raises(PipelineError, match="another run"):
        older.write(storage.join(place, "two"), b"2")
    newer.write(storage.join(place, "one"), b"3")
    assert storage.read(storage.join(place, "one")) == b"3"
    with newer.ending():
        assert len(storage.names_in(place)) == 2
    assert set(storage.names_in(place)) == {"one"}


def test_partial_file_of_an_earlier_run_is_not_published(place: str) -> None:
    older = RunOutput(place)
    older.begin()

    def write(folder: Path) -> None:
        (folder / "shard").write_bytes(b"half")
        RunOutput(place).begin()
        if (folder / "shard").exists():
            (folder / "shard").write_bytes(b"whole")

    with pytest.raises(PipelineError, match="another run"):
        older.write_in(place, write)
    assert "shard" not in storage.names_in(place)


def test_deleted_directory_is_not_created_again(tmp_path: Path) -> None:
    output = RunOutput(str(tmp_path / "data"))
    output.begin()
    spill = SpillToDisk(output.staging)
    spill.start_bundle()
    list(spill.process((0, pack([TokenizedDocument(7, np.ones(3, np.int32), np.array([3], np.int32))], 100))))
    shutil.rmtree(output.directory)
    with pytest.raises(PipelineError, match="was deleted"):
        output.write(storage.join(output.directory, "folder", "one"), b"1")
    with pytest.raises(FileNotFoundError):
        list(spill.finish_bundle())
    assert not Path(output.directory).exists()


def test_a_worker_ends_when_its_driver_does() -> None:
    worker, driver = os.pipe()
    ended = threading.Event()
    worker_main.watch_input(worker, ended.set)
    assert not ended.is_set()
    os.close(driver)
    assert ended.wait(60)
    os.close(worker)
