"""Outputs: markers last, interrupted uploads, resuming here and elsewhere, and two writers."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from bert_tf.storage import Store, StoreError, leases, outputs, publish, refresh, working_copy
from bert_tf.storage.leases import LeaseError
from tests.support.storage.faulty import CALLS, FAULTS, whole_upload

STEP, NEXT = "checkpoints/step-00000001", "checkpoints/step-00000002"
FILES = ("model.npz", "variables.npz", "state.json")


def write_step(run: Path, step: int, text: str = "weights") -> Path:
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(f"{text} {step}")
    return folder


def publish_now(path: Path) -> None:
    publish(path)
    outputs._OPEN[-1]._uploader.wait()


def changes() -> list[str]:
    names = {"put_file": "", "rm_file": "-"}
    found = [(names[call], path.partition("/run/")[2]) for call, path in CALLS if call in names]
    return [sign + name for sign, name in found if name]


def other_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "other_cache"))


def test_local_paths_are_unchanged(tmp_path: Path) -> None:
    with working_copy(tmp_path / "run") as path:
        assert path == tmp_path / "run"
    publish(tmp_path)


def test_markers_are_uploaded_last_and_deleted_first(bucket: str) -> None:
    with working_copy(f"{bucket}/run") as run:
        publish_now(write_step(run, 1))
        assert changes() == [f"{STEP}/model.npz", f"{STEP}/variables.npz", f"{STEP}/state.json"]
        (run / "result.json").write_text("{}")
        publish_now(run)
        CALLS.clear()
        for path in (run / STEP).iterdir():
            path.unlink()
        (run / "history.jsonl").write_text("{}")
    assert changes() == [
        "-result.json",
        "history.jsonl",
        f"-{STEP}/state.json",
        f"-{STEP}/model.npz",
        f"-{STEP}/variables.npz",
        "result.json",
    ]
    assert list(Store(bucket).files()) == ["run/history.jsonl", "run/result.json"]


def test_the_last_checkpoint_is_deleted_after_the_next_one_is_whole(bucket: str) -> None:
    with working_copy(f"{bucket}/run") as run:
        publish_now(write_step(run, 1))
        CALLS.clear()
        shutil.rmtree(run / STEP)
        write_step(run, 2)
    assert changes()[:4] == [*(f"{NEXT}/{name}" for name in FILES), f"-{STEP}/state.json"]


def test_unchanged_files_stay_where_they_are(bucket: str) -> None:
    for _ in range(2):
        with working_copy(f"{bucket}/run") as run:
            if not run.exists():
                write_step(run, 1)
    assert len(changes()) == 3
    assert not [call for call, _ in CALLS if call == "get_file"]


def test_another_machine_continues_where_this_one_ended(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working_copy(f"{bucket}/run") as first:
        write_step(first, 1)
    with monkeypatch.context() as patch:
        other_machine(patch, tmp_path)
        with working_copy(f"{bucket}/run") as run:
            assert (run / STEP / "state.json").read_text() == "weights 1"
            write_step(run, 2)
    with working_copy(f"{bucket}/run") as run:
        assert run == first
        assert (run / "checkpoints/step-00000002/model.npz").read_text() == "weights 2"


def test_a_lost_connection_names_the_checkpoint_and_the_next_run_uploads_it(bucket: str) -> None:
    with (
        pytest.raises(StoreError, match=f"last checkpoint is .*{STEP}; the same command"),
        working_copy(f"{bucket}/run") as run,
    ):
        write_step(run, 1)
        FAULTS["put_file"] = [whole_upload, *[TimeoutError()] * 3]
        publish(run)
    assert (run / STEP / "state.json").exists()
    FAULTS.clear()
    with working_copy(f"{bucket}/run"):
        assert f"run/{STEP}/state.json" in Store(bucket).files()


def test_a_killed_writer_keeps_its_newer_files(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # A killed process does not release its lease.
        patch.setattr(leases.Lease, "release", lambda self: None)
        with working_copy(f"{bucket}/run") as run:
            write_step(run, 1)
    write_step(run, 2)
    # It was killed between an upload and its entry in the journal.
    store = Store(f"{bucket}/run")
    store.write("checkpoints/step-00000002/model.npz", b"weights of the upload")
    with working_copy(store.url):
        assert store.read("checkpoints/step-00000002/state.json") == b"weights 2"
        assert store.read("checkpoints/step-00000002/model.npz") == b"weights 2"


def test_incomplete_directories_of_the_store_are_ignored_and_named(
    bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(f"{bucket}/run")
    for name in (f"{STEP}/model.npz", f"{STEP}/state.json", "checkpoints/step-00000002/model.npz", "preset/vocab.txt"):
        store.write(name, b"x")
    with caplog.at_level(logging.WARNING), working_copy(store.url) as run:
        assert sorted(p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file()) == [
            f"{STEP}/model.npz",
            f"{STEP}/state.json",
        ]
    assert "step-00000002 is ignored" in caplog.text and "preset is ignored" in caplog.text


def test_changes_of_another_machine_do_not_overwrite_unsaved_files(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working_copy(f"{bucket}/run") as run:
        write_step(run, 1)
    write_step(run, 2, "unsaved")
    Store(f"{bucket}/run").write("history.jsonl", b"of another machine")
    with working_copy(f"{bucket}/run"):
        assert not (run / "checkpoints/step-00000002").exists()
        assert (run / STEP / "model.npz").exists()
    aside = next(run.parent.glob(".outdated*"))
    assert (aside / "checkpoints/step-00000002/model.npz").read_text() == "unsaved 2"


def test_a_failed_block_uploads_what_it_wrote(bucket: str) -> None:
    with pytest.raises(KeyError), working_copy(f"{bucket}/run") as run:
        write_step(run, 1)
        raise KeyError
    assert f"run/{STEP}/state.json" in Store(bucket).files()
    assert "run/.run.lease" not in Store(bucket).files() and Store(bucket).read(".run.lease") is None


def test_a_writer_without_its_lease_uploads_nothing(bucket: str) -> None:
    with pytest.raises(LeaseError, match="process 7"), working_copy(f"{bucket}/run") as run:
        write_step(run, 1)
        Store(bucket).write(".run.lease", json.dumps({"token": "other", "pid": 7, "host": "x"}).encode())
        publish(run)
    assert list(Store(f"{bucket}/run").files()) == []


def test_two_writers_on_one_machine_are_kept_apart(bucket: str) -> None:
    with (
        working_copy(f"{bucket}/run"),
        pytest.raises(RuntimeError, match="another process"),
        working_copy(f"{bucket}/run"),
    ):
        pass


def test_an_output_file_and_its_siblings_are_uploaded(bucket: str) -> None:
    for text in ("first", "second"):
        with working_copy(f"{bucket}/out/answers.jsonl") as path:
            path.write_text(text)
            path.with_name("answers.jsonl.skipped.tsv").write_text("line 1")
    store = Store(f"{bucket}/out")
    assert list(store.files()) == ["answers.jsonl", "answers.jsonl.skipped.tsv"]
    assert store.read("answers.jsonl") == b"second"


def test_exports_see_the_versions_of_the_store_without_their_files(bucket: str) -> None:
    store = Store(f"{bucket}/models/cola")
    store.write("1/saved_model.pb", b"large")
    for version in ("2", "3"):
        with working_copy(store.url, fetches=False) as path:
            assert (path / "1").is_dir() and not list((path / "1").iterdir())
            (path / version).mkdir()
            (path / version / "saved_model.pb").write_text(version)
    assert list(store.files()) == ["1/saved_model.pb", "2/saved_model.pb", "3/saved_model.pb"]


def test_other_workers_read_only(bucket: str) -> None:
    with working_copy(f"{bucket}/run") as run:
        publish_now(write_step(run, 1))
        with working_copy(f"{bucket}/run", writes=False) as other:
            assert other != run
            assert (other / STEP / "state.json").exists()
            (other / "more.txt").write_text("x")
    assert "run/more.txt" not in Store(bucket).files()


def test_other_workers_read_what_the_chief_has_published_since(bucket: str) -> None:
    with working_copy(f"{bucket}/run") as run, working_copy(f"{bucket}/run", writes=False) as other:
        step = write_step(run, 1)
        publish_now(run)
        refresh(run)
        assert not other.joinpath(STEP).exists()
        refresh(other)
        assert (other / STEP / "state.json").exists(), step


def test_no_permission_to_write_is_named_before_the_work(bucket: str) -> None:
    FAULTS["pipe_file"] = [PermissionError("AccessDenied")]
    with pytest.raises(StoreError, match="no permission"), working_copy(f"{bucket}/run"):
        raise AssertionError


def test_a_bucket_is_no_output(bucket: str) -> None:
    with pytest.raises(StoreError, match="must be below a bucket"), working_copy(bucket):
        pass
