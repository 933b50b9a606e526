"""Versions are added, fail and are removed, while the current version continues to serve."""

from __future__ import annotations

import logging
import threading
import weakref
from pathlib import Path

import pytest
from tensorflow_serving.config.file_system_storage_path_source_pb2 import FileSystemStoragePathSourceConfig

from bert_tf.serving.errors import ServingError
from bert_tf.serving.models.versions import (
    AVAILABLE,
    END,
    MAX_RETRY_SECONDS,
    START,
    UNLOADING,
    ModelVersions,
    ServedModel,
    VersionState,
)
from tests.support.serving.fake_versions import Models, write_version


def test_new_version_replaces_the_old_one(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        assert (models.answers(), models.states()) == (1, {1: AVAILABLE})
        models.add(2)
        models.manager.poll()
        assert (models.answers(), models.states()) == (2, {2: AVAILABLE})
        assert models.loaded[1][0].closed.is_set()
        models.manager.poll()
        assert {version: len(found) for version, found in models.loaded.items()} == {1: 1, 2: 1}
    assert models.loaded[2][0].closed.is_set()


def test_unloaded_version_is_released(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        gone = weakref.ref(models.loaded[1][0])
        # A reference cycle, which only the garbage collector frees.
        models.loaded[1][0].itself = models.loaded[1][0]  # type: ignore[attr-defined]
        del models.loaded[1]
        models.add(2)
        models.manager.poll()
        assert gone() is None


def test_running_request_keeps_its_version(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        with models.manager.lease("m") as old:
            models.add(2)
            swap = threading.Thread(target=models.manager.poll)
            swap.start()
            while models.states().get(1) != UNLOADING:
                assert swap.is_alive()
            assert (old.version, old.closed.is_set(), models.answers()) == (1, False, 2)  # type: ignore[attr-defined]
        swap.join(20)
        assert (models.loaded[1][0].closed.is_set(), models.states()) == (True, {2: AVAILABLE})


def test_corrupt_version_is_not_served_until_it_is_repaired(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        models.add(2, b"corrupt")
        models.manager.poll()
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {2: END, 1: AVAILABLE})
        assert "2: not a readable SavedModel" in models.manager.status("m", 2)[0].error
        models.add(2, b"mended")
        models.manager.poll()
        assert (models.answers(), models.states()) == (2, {2: AVAILABLE})


def test_removed_version_is_replaced_by_the_previous_one(tmp_path: Path) -> None:
    models = Models(tmp_path, 1, 2)
    with models.manager:
        assert models.answers() == 2
        models.remove(2)
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {1: AVAILABLE})
        models.remove(1)
        models.manager.poll()
        assert (models.answers(), models.manager.ready("m")) == (1, True)


def test_labels_refer_to_versions(tmp_path: Path) -> None:
    models = Models(tmp_path, 1, 2, labels={"stable": 2, "canary": 3})
    with models.manager:
        assert models.answers(label="stable") == 2
        assert models.manager.status("m", label="stable")[0].version == 2
        with pytest.raises(ServingError, match=r"Specific\(m, 3\)"):
            models.answers(label="canary")
        with pytest.raises(ServingError, match="Unrecognized servable version label: x"):
            models.answers(label="x")


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [("x", None, r"Latest\(x\)"), ("m", 9, r"Specific\(m, 9\)"), ("..", 1, r"Specific\(\.\., 1\)")],
)
def test_missing_models_and_versions_are_reported(name: str, version: int | None, message: str, tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager, pytest.raises(ServingError, match=message), models.manager.lease(name, version):
        pass


def test_a_model_without_a_version_is_not_ready(tmp_path: Path) -> None:
    models = Models(tmp_path)
    with models.manager:
        assert not models.manager.ready("m")
        with pytest.raises(ServingError, match="Could not find any versions of model m"):
            models.manager.status("m")
        models.add(1)
        models.manager.poll()
        assert models.manager.ready("m")
    assert not models.manager.ready("m")


def test_a_folder_is_watched(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    models.manager = models.manager_of(ServedModel("m", tmp_path), poll_seconds=0.01)
    with models.manager:
        models.add(2)
        assert models.loaded[1][0].closed.wait(20)
        assert models.answers() == 2


def test_any_file_of_a_failed_version_is_watched(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)

    def needs_weights(folder: Path) -> None:
        if folder.name == "2" and not (folder / "variables/weights").is_file():
            raise ValueError("no weights")

    models.before_load = needs_weights
    with models.manager:
        models.add(2)
        models.manager.poll()
        models.manager.poll()
        assert (models.states(), models.tried) == ({2: END, 1: AVAILABLE}, ["1", "2"])
        (tmp_path / "2/variables").mkdir()
        (tmp_path / "2/variables/weights").write_bytes(b"good")
        models.manager.poll()
        assert (models.answers(), models.states()) == (2, {2: AVAILABLE})


def test_failed_version_is_retried_with_increasing_delays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = Models(tmp_path)
    models.add(2, b"corrupt")
    tries = []
    with models.manager:
        for models.now in (0, 0.9, 1, 2.9, 3, 6.9, 7):
            models.manager.poll()
            tries.append(len(models.tried))
    assert tries == [1, 1, 2, 2, 3, 3, 4]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_retry_delays_are_limited(tmp_path: Path) -> None:
    model = ModelVersions(ServedModel("m", tmp_path))
    pauses = []
    for _ in range(2000):
        model.fail(VersionState(1, END, "damaged"), tmp_path / "1", frozenset(), 0.0)
        pauses.append(model.failed[tmp_path / "1"].retry_at)
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert set(pauses[9:]) == {MAX_RETRY_SECONDS}
    model.fail(VersionState(1, END, "damaged"), tmp_path / "1", frozenset({("file", 1, 1)}), 0.0)
    assert model.failed[tmp_path / "1"].retry_at == 1


def test_version_with_missing_files_is_loaded_once_complete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        (tmp_path / "2").mkdir()
        models.manager.poll()
        (tmp_path / "2/first").write_bytes(b"there")
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {2: START, 1: AVAILABLE})
        [state] = models.manager.status("m", 2)
        assert "saved_model.pb is missing" in state.error
        assert state.error_code == "OK"
        assert len(caplog.records) == 1
        models.add(2)
        models.manager.poll()
        assert (models.answers(), models.states(), models.tried) == (2, {2: AVAILABLE}, ["1", "2"])


@pytest.mark.parametrize("content", [b"good", b"corrupt"])
def test_a_version_whose_files_change_while_it_is_loaded_is_discarded(content: bytes, tmp_path: Path) -> None:
    models = Models(tmp_path, 1)

    def add_file_during_load(folder: Path) -> None:
        if not (folder / "more").exists():
            (folder / "more").write_bytes(b"more")

    with models.manager:
        models.before_load = add_file_during_load
        models.add(2, content)
        models.manager.poll()
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {2: START, 1: AVAILABLE})
        assert all(version.closed.is_set() for version in models.loaded.get(2, []))
        models.add(2)
        models.now = 1
        models.manager.poll()
        assert (models.answers(), models.states(), models.tried) == (2, {2: AVAILABLE}, ["1", "2", "2"])


def test_numbers_may_have_leading_zeros(tmp_path: Path) -> None:
    models = Models(tmp_path)
    write_version(tmp_path / "00000006")
    write_version(tmp_path / "5")
    with models.manager:
        assert (models.answers(), models.states()) == (6, {6: AVAILABLE})
        write_version(tmp_path / "007")
        write_version(tmp_path / "07")
        models.manager.poll()
        assert (models.answers(), models.loaded[7][0].folder.name) == (7, "07")
        assert models.manager.status("m")[0].error == "007: ignored, since 07 is the same version"
        write_version(tmp_path / "7")
        models.manager.poll()
        assert [version.folder.name for version in models.loaded[7]] == ["07", "7"]
        assert (models.loaded[7][0].closed.is_set(), models.states()) == (True, {7: AVAILABLE})


def test_damaged_newest_version_falls_back_to_an_older_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = Models(tmp_path, 1, 2, 3)
    models.add(4, b"corrupt")
    models.add(5, b"corrupt")
    with models.manager:
        assert (models.answers(), models.states()) == (3, {5: END, 4: END, 3: AVAILABLE})
        assert "falling back to 3" in caplog.text
        models.manager.poll()
        assert models.tried == ["5", "4", "3"]
        models.add(4)
        models.manager.poll()
        assert (models.answers(), models.states()) == (4, {5: END, 4: AVAILABLE})
        models.add(5)
        models.manager.poll()
        assert (models.answers(), models.states()) == (5, {5: AVAILABLE})


def test_only_versions_of_the_policy_are_served(tmp_path: Path) -> None:
    policy = FileSystemStoragePathSourceConfig.ServableVersionPolicy()
    policy.specific.versions.append(2)
    models = Models(tmp_path, 1, policy=policy)
    models.add(2, b"corrupt")
    with models.manager:
        assert (models.manager.ready("m"), models.states()) == (False, {2: END})


def test_unreadable_base_path_affects_only_its_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = Models(tmp_path / "good", 1)
    write_version(tmp_path / "m/1")
    listed = [ServedModel(name, tmp_path / name) for name in ("file", "gone", "m", "good")]
    (tmp_path / "file").write_bytes(b"")
    models.manager = models.manager_of(*listed)
    with models.manager:
        (tmp_path / "m").rename(tmp_path / "away")
        (tmp_path / "m").write_bytes(b"")
        models.add(2)
        models.manager.poll()
        models.manager.poll()
        assert (models.answers("good"), models.states("good")) == (2, {2: AVAILABLE})
        assert (models.answers("m"), models.states("m")) == (1, {1: AVAILABLE})
        assert "cannot be read: [Errno 20]" in models.manager.status("m")[0].error
        for name in ("file", "gone"):
            with pytest.raises(ServingError, match=f"any versions of model {name}: .*{name}: cannot be read"):
                models.manager.status(name)
        assert sum(record.levelno == logging.ERROR for record in caplog.records) == 3
        (tmp_path / "m").unlink()
        write_version(tmp_path / "m/2")
        models.manager.poll()
        assert (models.answers("m"), models.manager.status("m")[0].error) == (2, "")


def test_slow_load_does_not_delay_other_models(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    models = Models(tmp_path / "m", 1)
    write_version(tmp_path / "slow/1")
    models.manager = models.manager_of(
        ServedModel("slow", tmp_path / "slow"), ServedModel("m", tmp_path / "m"), poll_seconds=0.01
    )
    loading, go_on = threading.Event(), threading.Event()

    def wait(folder: Path) -> None:
        if folder == tmp_path / "slow/3":
            loading.set()
            assert go_on.wait(20)

    models.before_load = wait
    with models.manager:
        write_version(tmp_path / "slow/3")
        assert loading.wait(20)
        first = next(version for version in models.loaded[1] if version.folder.parent.name == "m")
        models.add(2)
        assert first.closed.wait(20)
        assert (models.answers(), models.answers("slow")) == (2, 1)
        # The load ends while the manager is closing; its version is closed too.
        threading.Thread(target=lambda: (models.manager._stopping.wait(20), go_on.set())).start()
    assert models.loaded[3][0].closed.is_set()
    started = set(threading.enumerate()) - before
    assert [thread for thread in started if thread.name.startswith(("watch", "load", "unload"))] == []


def test_models_can_be_changed_at_run_time(tmp_path: Path) -> None:
    models = Models(tmp_path / "m", 1, 2)
    write_version(tmp_path / "new/1")
    write_version(tmp_path / "moved/2")
    with models.manager:
        with models.manager.lease("m") as old:
            models.manager.reload([ServedModel("new", tmp_path / "new", {"stable": 1})])
            models.manager.wait_loaded(["new"])
            assert (models.manager.names, models.answers("new", label="stable")) == (["new"], 1)
            with pytest.raises(ServingError, match=r"Latest\(m\)"):
                models.answers()
            assert not old.closed.is_set()  # type: ignore[attr-defined]
        assert models.loaded[2][0].closed.wait(20)
        both = FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        both.all.SetInParent()
        models.manager.reload([ServedModel("m", tmp_path / "m", {"old": 1}, both)])
        models.manager.wait_loaded(["m"])
        assert (models.states(), models.answers(label="old")) == ({1: AVAILABLE, 2: AVAILABLE}, 1)
        with models.manager.lease("m", version=1):
            models.manager.reload([ServedModel("m", tmp_path / "moved")])
            # The test does not wait until version 1 is unloaded.
            models.manager.wait_loaded(["m"])
        models.manager.poll()
        assert models.states() == {2: AVAILABLE}
        assert [version.closed.is_set() for version in models.loaded[2]] == [True, True, False]


def test_a_model_that_is_dropped_while_it_is_loaded_is_closed(tmp_path: Path) -> None:
    models = Models(tmp_path / "m", 1)
    loading, go_on = threading.Event(), threading.Event()

    def wait(folder: Path) -> None:
        if folder.name == "2":
            loading.set()
            assert go_on.wait(20)

    models.before_load = wait
    with models.manager:
        models.add(2)
        write_version(tmp_path / "new/1")
        poll = threading.Thread(target=models.manager.poll)
        poll.start()
        assert loading.wait(20)
        with pytest.raises(TimeoutError):
            models.manager.wait_loaded(["m"], 0)
        models.manager.reload([ServedModel("new", tmp_path / "new")])
        go_on.set()
        poll.join(20)
        assert models.loaded[2][0].closed.wait(20)
        assert models.manager.names == ["new"]
