"""Which versions of which models answer: found on disk, loaded beside those that serve, swapped without a gap.

A version that cannot be loaded changes nothing: what served goes on serving, and the status says what is wrong. A
version whose folder is gone is unloaded once the requests under way are answered; when all are gone, as after a slip
of hand, the last ones go on.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from bert_tf.export.metadata import SAVED_MODEL_NAME
from bert_tf.export.serving.configuration import ServedModel
from bert_tf.export.serving.errors import ServingError
from bert_tf.export.serving.loaded_version import LoadedVersion
from bert_tf.export.versions import versions

logger = logging.getLogger(__name__)

LOADING, AVAILABLE, UNLOADING, END = "LOADING", "AVAILABLE", "UNLOADING", "END"


@dataclass(frozen=True)
class VersionState:
    """Where a version is between loading and its end.

    Args:
        version: its number.
        state: LOADING, AVAILABLE, UNLOADING or END, as in TF Serving's ModelVersionStatus.
        error: why it does not serve; empty where nothing is wrong.
    """

    version: int
    state: str
    error: str = ""


class ModelManager:
    """Loads, swaps and unloads versions.

    Args:
        models: what to serve.
        load: from a model's name and the folder of a version to a version that answers; raises ValueError where the
            version is none.
        poll_seconds: how often the folders are looked at; 0 looks once, at the start.

    Use it as a context: the block is entered when every model has been tried once.
    """

    def __init__(
        self, models: Sequence[ServedModel], load: Callable[[str, Path], LoadedVersion], poll_seconds: float = 1.0
    ) -> None:
        self._models = {model.name: model for model in models}
        self._load = load
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._serving: dict[str, dict[int, LoadedVersion]] = {name: {} for name in self._models}
        self._states: dict[str, dict[int, VersionState]] = {name: {} for name in self._models}
        # What a version that failed looked like, so that it is tried again when it has changed.
        self._failed: dict[Path, tuple[int, int] | None] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="models", daemon=True)

    @property
    def names(self) -> list[str]:
        """Names of the models that are configured."""
        return list(self._models)

    def __enter__(self) -> ModelManager:
        self.poll()
        if self._poll_seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for serving in self._serving.values():
            for version in serving.values():
                version.close()

    @contextlib.contextmanager
    def lease(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[LoadedVersion]:
        """Gives the version that answers a request to a block, during which it stays loaded.

        Args:
            name: of the model.
            version: the highest one where None.
            label: instead of a version.

        Raises:
            ServingError: where there is none.
        """
        with self._lock:
            if label is not None:
                version = self._labelled(name, label)
            serving = self._serving.get(name, {})
            found = serving.get(max(serving, default=0) if version is None else version)
            if found is None:
                wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
                raise ServingError(f"Servable not found for request: {wanted}", grpc.StatusCode.NOT_FOUND)
            # Under the lock: between a look and a lease, a swap could close it.
            found.acquire()
        try:
            yield found
        finally:
            found.release()

    def status(self, name: str, version: int | None = None, label: str | None = None) -> list[VersionState]:
        """Returns the states of a model's versions, the highest first, or of one.

        Raises:
            ServingError: where there is none.
        """
        with self._lock:
            if label is not None:
                version = self._labelled(name, label)
            states = dict(self._states.get(name, {}))
        if version is not None:
            if version not in states:
                raise ServingError(f"Could not find version {version} of model {name}", grpc.StatusCode.NOT_FOUND)
            return [states[version]]
        if not states:
            raise ServingError(f"Could not find any versions of model {name}", grpc.StatusCode.NOT_FOUND)
        return [states[number] for number in sorted(states, reverse=True)]

    def ready(self, name: str) -> bool:
        """Returns whether a model has a version that answers."""
        with self._lock:
            return bool(self._serving[name]) and not self._stopping.is_set()

    def poll(self) -> None:
        """Looks at the folders once: loads what is new, then unloads what is not wanted any more."""
        for model in self._models.values():
            wanted = model.wanted(versions(model.base_path))
            for version in wanted:
                self._try(model, version)
            with self._lock:
                serving = self._serving[model.name]
                # As long as nothing wanted answers, what did goes on.
                gone = [] if not serving.keys() & set(wanted) else sorted(serving.keys() - set(wanted))
                self._states[model.name] = {
                    number: state
                    for number, state in self._states[model.name].items()
                    if number in wanted or number in serving or state.state == UNLOADING
                }
            for version in gone:
                self._unload(model.name, version)
            if gone:
                # A model is full of cycles, and beside TensorFlow's many objects Python seldom looks for any.
                gc.collect()

    def _watch(self) -> None:
        while not self._stopping.wait(self._poll_seconds):
            try:
                self.poll()
            except Exception:
                # A folder that cannot be read now may be again; what serves goes on.
                logger.exception("looking for versions failed")

    def _try(self, model: ServedModel, version: int) -> None:
        """Loads a version that does not serve yet, unless it failed and has not changed since."""
        folder = model.base_path / str(version)
        if version in self._serving[model.name] or self._failed.get(folder, ()) == _looks(folder):
            return
        looks = _looks(folder)
        self._say(model.name, VersionState(version, LOADING))
        logger.info("loading version %d of %s", version, model.name)
        try:
            loaded = self._load(model.name, folder)
        except Exception as error:
            self._failed[folder] = looks
            self._say(model.name, VersionState(version, END, str(error)))
            logger.error("version %d of %s cannot be served: %s", version, model.name, error)
            return
        self._failed.pop(folder, None)
        with self._lock:
            self._serving[model.name][version] = loaded
            self._states[model.name][version] = VersionState(version, AVAILABLE)
        logger.info("serving version %d of %s", version, model.name)

    def _unload(self, name: str, version: int) -> None:
        with self._lock:
            loaded = self._serving[name].pop(version)
            self._states[name][version] = VersionState(version, UNLOADING)
        loaded.close()
        with self._lock:
            del self._states[name][version]
        logger.info("unloaded version %d of %s", version, name)

    def _say(self, name: str, state: VersionState) -> None:
        with self._lock:
            self._states[name][state.version] = state

    def _labelled(self, name: str, label: str) -> int:
        labels = self._models[name].labels if name in self._models else {}
        if label not in labels:
            raise ServingError(f"Unrecognized servable version label: {label}")
        return labels[label]


def _looks(folder: Path) -> tuple[int, int] | None:
    """Returns what tells a changed version from the same one."""
    try:
        found = (folder / SAVED_MODEL_NAME).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
