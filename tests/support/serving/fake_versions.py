"""Fake versions without a model, and a manager for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_tf.export.metadata import SAVED_MODEL_NAME
from bert_tf.serving.models.batching import ONE_BY_ONE, Batcher
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.manager import ModelManager
from bert_tf.serving.models.versions import ServedModel


class Version(LoadedVersion):
    """A version without a model, which records whether it was closed."""

    def __init__(self, folder: Path) -> None:
        if (folder / SAVED_MODEL_NAME).read_bytes() == b"corrupt":
            raise ValueError(f"{folder}: not a readable SavedModel")
        self.folder = folder
        self.version = int(folder.name)
        self.closed = threading.Event()
        self._batcher = Batcher(self._run, ONE_BY_ONE)
        self._leases = 0
        self._released = threading.Condition()

    def close(self, seconds: float | None = None) -> None:
        """Closes the version."""
        super().close()
        self.closed.set()


def write_version(folder: Path, content: bytes = b"good") -> None:
    """Writes a version, at once for those who watch, that can be loaded unless its content is b"corrupt"."""
    staging = folder.with_name(f".{folder.name}.part")
    staging.mkdir(parents=True)
    (staging / SAVED_MODEL_NAME).write_bytes(content)
    if folder.is_dir():
        (staging / SAVED_MODEL_NAME).replace(folder / SAVED_MODEL_NAME)
        staging.rmdir()
    else:
        staging.rename(folder)


class Models:
    """A folder with versions of the model `m`, and its manager.

    Args:
        root: path of the folder.
        versions: versions that are written at the start.
        options: options of the ServedModel.
    """

    def __init__(self, root: Path, *versions: int, **options: Any) -> None:
        self.root = root
        for version in versions:
            self.add(version)
        self.loaded: dict[int, list[Version]] = {}
        self.tried: list[str] = []
        self.now = 0.0
        # Called with the folder before a version is loaded.
        self.before_load: Callable[[Path], None] = lambda folder: None
        self.manager = self.manager_of(ServedModel("m", root, **options))

    def manager_of(self, *models: ServedModel, **options: Any) -> ModelManager:
        """Returns a manager that scans folders only on `poll`, with this object's clock."""
        return ModelManager(models, self._load, clock=lambda: self.now, **{"poll_seconds": 0} | options)

    def _load(self, name: str, folder: Path) -> Version:
        self.tried.append(folder.name)
        self.before_load(folder)
        loaded = Version(folder)
        self.loaded.setdefault(loaded.version, []).append(loaded)
        return loaded

    def add(self, version: int, content: bytes = b"good") -> None:
        """Writes a version."""
        write_version(self.root / str(version), content)

    def remove(self, version: int) -> None:
        """Removes a version."""
        (self.root / str(version) / SAVED_MODEL_NAME).unlink()
        (self.root / str(version)).rmdir()

    def answers(self, name: str = "m", **choice: Any) -> int:
        """Returns the available version."""
        with self.manager.lease(name, **choice) as version:
            return version.version

    def states(self, name: str = "m") -> dict[int, str]:
        """Returns the states by version."""
        return {state.version: state.state for state in self.manager.status(name)}
