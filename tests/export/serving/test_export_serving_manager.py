"""Versions come, fail and go, and what serves goes on serving."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from bert_tf.export.metadata import SAVED_MODEL_NAME
from bert_tf.export.serving.batching import ONE_BY_ONE, Batcher
from bert_tf.export.serving.configuration import ServedModel
from bert_tf.export.serving.errors import ServingError
from bert_tf.export.serving.loaded_version import LoadedVersion
from bert_tf.export.serving.manager import AVAILABLE, END, UNLOADING, ModelManager


class Version(LoadedVersion):
    """A version of nothing, which knows whether it was closed."""

    def __init__(self, folder: Path) -> None:
        if (folder / SAVED_MODEL_NAME).read_bytes() == b"corrupt":
            raise ValueError(f"{folder}: not a readable SavedModel")
        self.version = int(folder.name)
        self.closed = threading.Event()
        self._batcher = Batcher(self._run, ONE_BY_ONE)
        self._leases = 0
        self._released = threading.Condition()

    def close(self) -> None:
        super().close()
        self.closed.set()


class Models:
    """A folder of versions, and a manager that has looked at it."""

    def __init__(self, root: Path, *versions: int, **options: Any) -> None:
        self.root = root
        for version in versions:
            self.add(version)
        self.loaded: dict[int, list[Version]] = {}
        self.manager = ModelManager([ServedModel("m", root, **options)], self._load, poll_seconds=0)

    def _load(self, name: str, folder: Path) -> Version:
        loaded = Version(folder)
        self.loaded.setdefault(loaded.version, []).append(loaded)
        return loaded

    def add(self, version: int, content: bytes = b"good") -> None:
        folder = self.root / str(version)
        folder.mkdir(exist_ok=True)
        (folder / SAVED_MODEL_NAME).write_bytes(content)

    def remove(self, version: int) -> None:
        (self.root / str(version) / SAVED_MODEL_NAME).unlink()
        (self.root / str(version)).rmdir()

    def answers(self, **choice: Any) -> int:
        with self.manager.lease("m", **choice) as version:
            return version.version

    def states(self) -> dict[int, str]:
        return {state.version: state.state for state in self.manager.status("m")}


def test_a_new_version_takes_over(tmp_path: Path) -> None:
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


def test_what_was_unloaded_leaves_memory(tmp_path: Path) -> None:
    models = Models(tmp_path, 1)
    with models.manager:
        gone = weakref.ref(models.loaded[1][0])
        # In a cycle only the collector finds it.
        models.loaded[1][0].itself = models.loaded[1][0]  # type: ignore[attr-defined]
        del models.loaded[1]
        models.add(2)
        models.manager.poll()
        assert gone() is None


def test_a_request_under_way_keeps_its_version(tmp_path: Path) -> None:
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


def test_a_corrupt_version_changes_nothing_until_it_is_mended(tmp_path: Path) -> None:
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


def test_a_version_that_is_removed_gives_way_to_the_one_before(tmp_path: Path) -> None:
    models = Models(tmp_path, 1, 2)
    with models.manager:
        assert models.answers() == 2
        models.remove(2)
        models.manager.poll()
        assert (models.answers(), models.states()) == (1, {1: AVAILABLE})
        models.remove(1)
        models.manager.poll()
        assert (models.answers(), models.manager.ready("m")) == (1, True)


def test_labels_are_versions(tmp_path: Path) -> None:
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
def test_what_is_not_there_is_said(name: str, version: int | None, message: str, tmp_path: Path) -> None:
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
    models.manager = ModelManager([ServedModel("m", tmp_path)], models._load, poll_seconds=0.01)
    with models.manager:
        models.add(2)
        assert models.loaded[1][0].closed.wait(20)
        assert models.answers() == 2
