"""Uploads in the background: the writer goes on, one upload at a time, failures at the next checkpoint, and kills."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from bert_tf.storage import Store, StoreError, outputs, publish, uploads, working_copy
from tests.support.storage.faulty import CALLS, FAULTS, whole_upload

FILES = ("model.npz", "optimizer.npz", "state.json")


def write_step(run: Path, step: int) -> Path:
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(f"weights {step}")
    return folder


def join_upload() -> None:
    """Waits until the upload has ended, with or without success."""
    if thread := outputs._OPEN[-1]._uploader._thread:
        thread.join(60)


class Pause:
    """An upload of a file that waits until it is released."""

    def __init__(self) -> None:
        self.reached, self._released = threading.Event(), threading.Event()

    def __call__(self, system: Any, source: str, path: str) -> None:
        self.reached.set()
        assert self._released.wait(60)
        whole_upload(system, source, path)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def pause(bucket: str) -> Pause:
    """Stops the upload of the first file."""
    pause = Pause()
    FAULTS["put_file"] = [pause]
    return pause


@pytest.mark.parametrize("copied_bytes", [0, uploads.COPIED_BYTES])
def test_a_run_continues_during_an_upload(
    bucket: str, pause: Pause, copied_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "COPIED_BYTES", copied_bytes)
    with working_copy(f"{bucket}/run") as run:
        run.mkdir()
        (run / "history.jsonl").write_text("1\n")
        publish(write_step(run, 1))
        assert pause.reached.wait(60)
        for step in (2, 3):
            shutil.rmtree(run / f"checkpoints/step-{step - 1:08d}")
            # As an atomic write.
            (run / "new").write_text("1\n2\n3\n"[: 2 * step])
            (run / "new").rename(run / "history.jsonl")
            publish(write_step(run, step))
        pause.release()
    put = [path.partition("/run/")[2] for call, path in CALLS if call == "put_file"]
    # Step 2 waited and was replaced by step 3.
    assert put == [
        *(f"checkpoints/step-00000001/{name}" for name in FILES[:2]),
        "history.jsonl",
        "checkpoints/step-00000001/state.json",
        *(f"checkpoints/step-00000003/{name}" for name in FILES[:2]),
        "history.jsonl",
        "checkpoints/step-00000003/state.json",
    ]
    store = Store(f"{bucket}/run")
    assert list(store.files()) == [*(f"checkpoints/step-00000003/{name}" for name in FILES), "history.jsonl"]
    assert store.read("history.jsonl") == b"1\n2\n3\n"
    assert not any((run.parent / ".snapshots").iterdir())


def test_files_that_grow_are_uploaded_as_they_were(bucket: str, pause: Pause) -> None:
    store = Store(f"{bucket}/run")
    with working_copy(store.url) as run:
        run.mkdir()
        (run / "history.jsonl").write_text("1\n")
        publish(run)
        assert pause.reached.wait(60)
        with (run / "history.jsonl").open("a") as file:
            file.write("2\n")
        pause.release()
    sizes = [store.files()["history.jsonl"].size, *[call for call, _ in CALLS if call == "put_file"]]
    assert sizes == [4, "put_file", "put_file"]


def test_a_failed_upload_ends_the_run_at_its_next_checkpoint(bucket: str) -> None:
    with (
        pytest.raises(StoreError, match="3 attempts.*last checkpoint is .*step-00000002; the same command"),
        working_copy(f"{bucket}/run") as run,
    ):
        FAULTS["put_file"] = [TimeoutError()] * 3
        publish(write_step(run, 1))
        join_upload()
        publish(write_step(run, 2))
    with working_copy(f"{bucket}/run"):
        assert "run/checkpoints/step-00000002/state.json" in Store(bucket).files()


def test_the_end_of_a_run_tries_again_after_a_failed_upload(bucket: str) -> None:
    with working_copy(f"{bucket}/run") as run:
        FAULTS["put_file"] = [TimeoutError()] * 3
        publish(write_step(run, 1))
        join_upload()
    assert "run/checkpoints/step-00000001/state.json" in Store(bucket).files()


def test_the_end_of_a_run_reports_what_it_waits_for(bucket: str, pause: Pause, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []

    def report(text: str, **_: Any) -> None:
        reports.append(text)
        pause.release()

    monkeypatch.setattr(uploads, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(uploads, "print", report, raising=False)
    with pytest.raises(SystemExit), working_copy(f"{bucket}/run") as run:
        publish(write_step(run, 1))
        raise SystemExit(143)
    assert reports[0] == f"uploading to {bucket}/run: 0 of 3 files, 0.0 of 0.0 MB"
    assert "run/checkpoints/step-00000001/state.json" in Store(bucket).files()


def test_a_second_signal_ends_the_wait_and_the_upload(
    bucket: str, pause: Pause, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uploads, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(uploads, "print", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt), working_copy(f"{bucket}/run") as run:
        write_step(run, 1)
    [thread] = [thread for thread in threading.enumerate() if thread.name == "bert_tf-upload"]
    pause.release()
    thread.join(60)
    assert list(Store(f"{bucket}/run").files()) == ["checkpoints/step-00000001/model.npz"]
    assert Store(bucket).read(".run.lease") is None


def test_a_full_disk_is_named_and_the_checkpoint_is_uploaded(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(uploads, "_keep", keep)
    with pytest.raises(OSError, match="BERT_TF_CACHE.*last checkpoint is"), working_copy(f"{bucket}/run") as run:
        publish(write_step(run, 1))
    assert "run/checkpoints/step-00000001/state.json" in Store(bucket).files()


class DiskFileSystem(LocalFileSystem):
    """A store that several processes see. It kills its process at the upload number `dies_at`."""

    protocol = "disk"
    cachable = False
    dies_at = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(auto_mkdir=True)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("disk://"))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> Any:
        DiskFileSystem.dies_at -= 1
        if DiskFileSystem.dies_at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().put_file(lpath, rpath, **options)


fsspec.register_implementation("disk", DiskFileSystem, clobber=True)


def test_a_kill_during_an_upload_leaves_the_last_whole_checkpoint(cache: Path, tmp_path: Path) -> None:
    url = f"disk://{tmp_path / 'bucket'}/run"

    def train() -> None:
        with working_copy(url) as run:
            publish(write_step(run, 1))
            shutil.rmtree(run / "checkpoints/step-00000001")
            # Within the upload of step 2.
            DiskFileSystem.dies_at = 5
            publish(write_step(run, 2))

    (tmp_path / "bucket").mkdir()
    process = multiprocessing.get_context("fork").Process(target=train)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    # On another machine.
    with working_copy(url, writes=False) as run:
        assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000001"]
        assert {path.name for path in (run / "checkpoints/step-00000001").iterdir()} == set(FILES)
    # On the machine of the killed process.
    with working_copy(url) as run:
        assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000002"]
    names = Store(url).files()
    assert [name for name in names if name.endswith("state.json")] == ["checkpoints/step-00000002/state.json"]
