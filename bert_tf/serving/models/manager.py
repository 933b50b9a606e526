"""Loads, swaps and unloads model versions while requests are answered.

If a version cannot be loaded, the current version continues to serve and the status reports the error. If no version
serves, the manager falls back to the next older version that can be loaded. A version whose folder is removed is
unloaded after its current requests; if all folders are removed, the last versions continue to serve. Each model is
watched by its own thread, so that no model waits for the folder of another.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import grpc

from bert_tf.serving.errors import ServingError
from bert_tf.serving.memory import release_memory
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.version_files import IncompleteVersionError, Signature, check_complete, folder_signature
from bert_tf.serving.models.version_source import version_source
from bert_tf.serving.models.versions import (
    END,
    LOADING,
    START,
    UNLOADING,
    ModelVersions,
    ServedModel,
    VersionState,
    close_version,
)

logger = logging.getLogger(__name__)

# Concurrent loads of all models together; each holds a version in memory in addition to those that serve.
LOAD_THREADS = 4
# Time for the last requests when the manager ends; their threads are daemons.
_LAST_SECONDS = 10.0
# Maximum number of versions that wait for their last requests at the same time.
_UNLOAD_THREADS = 32


class ModelManager:
    """Loads, swaps and unloads versions.

    Use it as a context manager: the block is entered after one attempt to load each model. `load` takes a model's name
    and a version's folder, and raises an error with the reason if it cannot load it. The folders are read every
    `poll_seconds`, at the start only if that is 0. `clock` measures the pauses between retries of a failed version, in
    seconds.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        load: Callable[[str, Path], LoadedVersion],
        poll_seconds: float = 1.0,
        *,
        load_threads: int = LOAD_THREADS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._models = {model.name: ModelVersions(model) for model in models}
        self._stopping = threading.Event()
        self._reloading = threading.Lock()
        self._loader = ThreadPoolExecutor(load_threads, "load")
        self._unloader = ThreadPoolExecutor(_UNLOAD_THREADS, "unload")
        # Running loads and unloads, with their pool and model.
        self._tasks: dict[Future[None], tuple[ThreadPoolExecutor, ModelVersions]] = {}
        self._watchers: list[threading.Thread] = []

    @property
    def names(self) -> list[str]:
        """Names of the models that are configured."""
        return [model.name for model in self._configured()]

    @property
    def base_paths(self) -> list[Path | str]:
        """Directories and URLs of the models that are configured."""
        return [model.served.base_path for model in self._configured()]

    def __enter__(self) -> ModelManager:
        try:
            self.poll()
        except BaseException:
            # For example Ctrl-C: cancels loads that have not started.
            self.__exit__()
            raise
        for model in self._configured():
            self._start_watching(model)
        return self

    def __exit__(self, *_: object) -> None:
        with self._reloading:
            self._stopping.set()
            models = self._configured()
        for model in models:
            model.dropped.set()
            # Waits for the end of a scan.
            with model.scanning:
                pass
        for thread in self._watchers:
            thread.join()
        self._loader.shutdown(cancel_futures=True)
        self._unloader.shutdown()
        for model in models:
            for loaded in model.serving.values():
                loaded.close(_LAST_SECONDS)

    @contextlib.contextmanager
    def lease(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[LoadedVersion]:
        """Keeps the highest version, or one by number or label, loaded for a block. Raises ServingError if absent."""
        with self._lock:
            if label is not None:
                version = self._labelled(name, label)
            serving = self._models[name].serving if name in self._models else {}
            number = max(serving, default=0) if version is None else version
            if number not in serving:
                wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
                raise ServingError(f"Servable not found for request: {wanted}", grpc.StatusCode.NOT_FOUND)
            loaded = serving[number]
            # Under the lock: otherwise a swap could close it before it is acquired.
            loaded.acquire()
        try:
            yield loaded
        finally:
            loaded.release()

    def status(self, name: str, version: int | None = None, label: str | None = None) -> list[VersionState]:
        """Returns the states of all versions, the highest first, or of one. Raises ServingError if it is absent."""
        with self._lock:
            if label is not None:
                version = self._labelled(name, label)
            model = self._models.get(name)
            states = model.status() if model else {}
            reason = f": {model.error}" if model and model.error else ""
        if version is not None:
            if version not in states:
                raise ServingError(f"Could not find version {version} of model {name}", grpc.StatusCode.NOT_FOUND)
            return [states[version]]
        if not states:
            raise ServingError(f"Could not find any versions of model {name}{reason}", grpc.StatusCode.NOT_FOUND)
        return [states[number] for number in sorted(states, reverse=True)]

    def ready(self, name: str) -> bool:
        """Returns True if a model has an available version."""
        with self._lock:
            return name in self._models and bool(self._models[name].serving) and not self._stopping.is_set()

    def serving(self, name: str) -> list[int]:
        """Returns the available versions of a model, the highest first."""
        with self._lock:
            return sorted(self._models[name].serving, reverse=True) if name in self._models else []

    def loaded(self) -> list[LoadedVersion]:
        """Returns all loaded versions."""
        with self._lock:
            return [loaded for model in self._models.values() for loaded in model.serving.values()]

    def poll(self) -> None:
        """Scans the folders of all models once, and waits for the resulting loads and unloads."""
        models = self._configured()
        for model in models:
            self._scan(model)
        self._settle(models, (self._loader, self._unloader))

    def reload(self, models: Sequence[ServedModel]) -> None:
        """Replaces the list of served models, like TF Serving's ReloadConfig.

        Removed models are unloaded after their current requests, and new ones are loaded; `wait_loaded` waits for them.
        Labels and policies of the other models change immediately; their current versions serve until the new ones are
        loaded.
        """
        with self._reloading:
            if self._stopping.is_set():
                return
            with self._lock:
                former, self._models = self._models, {}
                for served in models:
                    self._models[served.name] = former.get(served.name) or ModelVersions(served)
                    self._models[served.name].served = served
                added = [model for name, model in self._models.items() if name not in former]
                dropped = [model for name, model in former.items() if name not in self._models]
            for model in dropped:
                self._drop(model)
            for model in self._configured():
                self._scan(model)
            for model in added:
                self._start_watching(model)

    def wait_loaded(self, names: Collection[str], timeout: float | None = None) -> None:
        """Waits until all loads of the named models have finished. Raises TimeoutError after `timeout` seconds."""
        self._settle([model for model in self._configured() if model.name in names], (self._loader,), timeout)

    def _settle(
        self, models: list[ModelVersions], pools: Collection[ThreadPoolExecutor], timeout: float | None = None
    ) -> None:
        """Waits until pools have no tasks for some models. A finished load starts the tasks that follow from it."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._tasks = {task: concern for task, concern in self._tasks.items() if not task.done()}
                tasks = [task for task, (pool, model) in self._tasks.items() if pool in pools and model in models]
            if not tasks:
                return
            remaining = None if ends is None else ends - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise TimeoutError
            wait(tasks, remaining, FIRST_COMPLETED)

    def _configured(self) -> list[ModelVersions]:
        with self._lock:
            return list(self._models.values())

    def _start_watching(self, model: ModelVersions) -> None:
        if not self._poll_seconds:
            return
        thread = threading.Thread(target=self._watch, args=(model,), name=f"watch {model.name}", daemon=True)
        # Threads of dropped models have ended.
        self._watchers = [watcher for watcher in self._watchers if watcher.is_alive()] + [thread]
        thread.start()

    def _watch(self, model: ModelVersions) -> None:
        while not model.dropped.wait(self._poll_seconds):
            self._scan(model)

    def _scan(self, model: ModelVersions) -> None:
        """Scans a model's folder, and starts to load new versions and to unload unwanted ones."""
        with model.scanning:
            if model.dropped.is_set():
                return
            try:
                self._update(model)
            except Exception as error:
                self._report(model, f"{model.served.base_path}: cannot be read: {error}")
            else:
                self._report(model, "")

    def _update(self, model: ModelVersions) -> None:
        candidates = version_source(model.served.base_path).folders()
        folders = {number: same[0] for number, same in candidates.items()}
        waiting = self._waiting(model, folders)
        with self._lock:
            notices = model.note_duplicates(candidates)
            load, unload = model.plan(folders, waiting)
            closing = [(number, [model.serving.pop(number)]) for number in unload]
        for notice in notices:
            logger.warning("%s: %s", model.name, notice)
        for number in load:
            self._start(self._loader, model, self._load_version, model, number, folders[number])
        for number, holder in closing:
            self._start(self._unloader, model, self._unload_version, model, number, holder)

    def _drop(self, model: ModelVersions) -> None:
        """Unloads a model that is no longer configured."""
        model.dropped.set()
        with model.scanning, self._lock:
            holders = [[model.serving.pop(number)] for number in list(model.serving)]
        logger.info("%s is no longer served", model.name)
        for holder in holders:
            self._start(self._unloader, model, close_version, holder)

    def _waiting(self, model: ModelVersions, folders: dict[int, Path]) -> list[int]:
        """Returns the failed versions whose retry is not due yet."""
        with self._lock:
            failed, now = dict(model.failed), self._clock()
        return [n for n, folder in folders.items() if folder in failed and not failed[folder].is_due(folder, now)]

    def _report(self, model: ModelVersions, error: str) -> None:
        """Stores an error about a model's folder for the status, and logs changes."""
        with self._lock:
            before, model.error = model.error, error
        if error and error != before:
            logger.error("%s: no new versions: %s", model.name, error)
        elif before and not error:
            logger.info("%s: %s can be read again", model.name, model.served.base_path)

    def _start(self, pool: ThreadPoolExecutor, model: ModelVersions, function: Callable[..., None], *args: Any) -> None:
        with self._lock:
            # A version that is out of service is closed in any case.
            if self._stopping.is_set() and pool is self._loader:
                return
            task = pool.submit(function, *args)
            self._tasks[task] = pool, model
        task.add_done_callback(_log_failure)

    def _load_version(self, model: ModelVersions, number: int, folder: Path) -> None:
        """Loads a version, and starts the tasks that follow from it, such as unloading another version."""
        before = folder_signature(folder)
        try:
            version_source(model.served.base_path).fetch(folder)
            before = folder_signature(folder)
            check_complete(folder)
            self._loading(model, number, folder)
            loaded = self._load(model.name, folder)
        except Exception as error:
            state = START if isinstance(error, IncompleteVersionError) else END
            self._failed(model, VersionState(number, state, str(error)), folder, before)
            served = False
        else:
            served = self._loaded(model, number, loaded, before)
            del loaded
        if not served:
            release_memory()
        self._scan(model)

    def _loading(self, model: ModelVersions, number: int, folder: Path) -> None:
        with self._lock:
            is_retry = folder in model.failed
            if number not in model.serving:
                model.states[number] = VersionState(number, LOADING)
        logger.log(logging.DEBUG if is_retry else logging.INFO, "loading version %d of %s", number, model.name)

    def _failed(self, model: ModelVersions, state: VersionState, folder: Path, before: Signature) -> None:
        """Records a load that failed; logs it unless the last one failed likewise."""
        signature: Signature | None = before
        if state.state == END and folder_signature(folder) != before:
            # While files arrive, each attempt could fail, so the retry waits for the pause.
            state, signature = VersionState(state.version, START, state.error), None
        with self._lock:
            news = model.fail(state, folder, signature, self._clock())
        if news and state.state == END:
            logger.error("version %d of %s cannot be served: %s", state.version, model.name, state.error)
        elif news:
            logger.warning("version %d of %s cannot be served yet: %s", state.version, model.name, state.error)

    def _loaded(self, model: ModelVersions, number: int, loaded: LoadedVersion, before: Signature) -> bool:
        """Puts a version into service and returns True, unless its files changed or its model was dropped meanwhile."""
        if folder_signature(loaded.folder) != before:
            loaded.close()
            error = f"{loaded.folder}: its files changed while it was loaded"
            self._failed(model, VersionState(number, END, error), loaded.folder, before)
            return False
        with self._lock:
            dropped = model.dropped.is_set()
            replaced = None if dropped else model.serve(number, loaded)
        if dropped:
            loaded.close()
            return False
        logger.info("serving version %d of %s", number, model.name)
        if replaced:
            holder = [replaced]
            del replaced
            self._start(self._unloader, model, close_version, holder)
        return True

    def _unload_version(self, model: ModelVersions, number: int, holder: list[LoadedVersion]) -> None:
        folder = holder[0].folder
        close_version(holder)
        with self._lock:
            # It may have been loaded again in the meantime.
            if number in model.states and model.states[number].state == UNLOADING:
                del model.states[number]
            is_back = number in model.serving or number in model.loading
        if not is_back:
            version_source(model.served.base_path).release(folder)
        logger.info("unloaded version %d of %s", number, model.name)

    def _labelled(self, name: str, label: str) -> int:
        labels = self._models[name].served.labels if name in self._models else {}
        if label not in labels:
            raise ServingError(f"Unrecognized servable version label: {label}")
        return labels[label]


def _log_failure(task: Future[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        logger.error("a model could not be updated", exc_info=error)
