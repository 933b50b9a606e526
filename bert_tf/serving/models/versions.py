"""A served model and the state of its versions: serving, loading, failed, and the retries of failed loads."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorflow_serving.config.file_system_storage_path_source_pb2 import FileSystemStoragePathSourceConfig

from bert_tf.config import ConfigError, local_path
from bert_tf.serving.memory import release_memory
from bert_tf.serving.models.loaded_version import LoadedVersion
from bert_tf.serving.models.version_files import Signature, folder_signature
from bert_tf.storage import is_url

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[^/:\s]+")
START, LOADING, AVAILABLE, UNLOADING, END = "START", "LOADING", "AVAILABLE", "UNLOADING", "END"

# A failed version is retried after this pause. The pause doubles with each failure, up to five minutes, which is also
# the limit of Kubernetes for a container that fails (kubernetes.io, "Pod Lifecycle", restart policy).
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 300.0


@dataclass(frozen=True)
class ServedModel:
    """Configuration of a served model."""

    name: str
    base_path: Path | str  # folder of its versions; a string is the URL of an object store
    labels: dict[str, int] = field(default_factory=dict)  # version numbers by label
    # The versions to serve; defaults to the highest.
    policy: FileSystemStoragePathSourceConfig.ServableVersionPolicy | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"a model's name must be without `/`, `:` and spaces. Received: {self.name!r}")

    def wanted(self, versions: list[int]) -> list[int]:
        """Returns the existing versions that the policy selects, ascending."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all"):
            return versions
        if policy.HasField("specific"):
            return [version for version in versions if version in policy.specific.versions]
        return versions[-max(1, policy.latest.num_versions) :]

    def older(self, versions: list[int]) -> list[int]:
        """Returns the older versions that `latest` does not select, ascending: the fallback if no newer one loads."""
        policy = self.policy or FileSystemStoragePathSourceConfig.ServableVersionPolicy()
        if policy.HasField("all") or policy.HasField("specific"):
            return []
        return versions[: -max(1, policy.latest.num_versions)]


def model_at(path: str | Path, name: str = "") -> ServedModel:
    """Returns the model in a directory or at a URL, which has the name of the directory by default."""
    if is_url(path) and not str(path).startswith("file:"):
        url = str(path).rstrip("/")
        return ServedModel(name or url.rpartition("/")[2], url)
    folder = local_path(path).resolve()
    return ServedModel(name or folder.name, folder)


@dataclass(frozen=True)
class VersionState:
    """State of a version, with the names of TF Serving's ModelVersionStatus."""

    version: int
    state: str  # START if the files are not complete yet
    error: str = ""  # of the version or of its model's folder

    @property
    def error_code(self) -> str:
        """Name of the canonical code: UNKNOWN for a version that failed, OK for all others."""
        return "UNKNOWN" if self.state == END and self.error else "OK"


@dataclass(frozen=True)
class FailedLoad:
    """A failed load."""

    # Signature of the folder before the load; None if its files changed during the load, so that only the pause counts.
    signature: Signature | None
    failures: int  # number of consecutive failures with this signature
    retry_at: float  # on the manager's clock
    news: tuple[str, str]  # state and error in the log

    def is_due(self, folder: Path, now: float) -> bool:
        """Returns True if a retry is due: after the pause, or if the files have changed."""
        return now >= self.retry_at or (self.signature is not None and self.signature != folder_signature(folder))


class ModelVersions:
    """State of one model, whose configuration may be replaced at any time. Callers must hold the manager's lock."""

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        self.serving: dict[int, LoadedVersion] = {}
        self.states: dict[int, VersionState] = {}
        self.loading: set[int] = set()
        self.failed: dict[Path, FailedLoad] = {}
        # Error of the base path, and notices about single versions that serve nevertheless.
        self.error = ""
        self.notices: dict[int, str] = {}
        self.dropped = threading.Event()
        # Held during a scan of the folder.
        self.scanning = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.served.name

    def plan(self, folders: Mapping[int, Path], waiting: Collection[int]) -> tuple[list[int], list[int]]:
        """Returns the versions to load and to unload, and updates states; `waiting` ones failed and are not due yet."""
        wanted = self.served.wanted(sorted(folders))
        tried = wanted + self._fallback(wanted, self.served.older(sorted(folders)), waiting)
        load = [number for number in tried if number not in waiting and self._is_missing(number, folders[number])]
        self.loading.update(load)
        for number in load:
            self.states.setdefault(number, VersionState(number, START))
        answering = self.serving.keys() & set(wanted)
        # Until a wanted version is available, the current versions continue to serve.
        unload = self.serving.keys() - set(wanted) if answering else self.served.older(sorted(self.serving))
        for number in unload:
            self.states[number] = VersionState(number, UNLOADING)
        kept = self.serving.keys() | self.loading | set(tried if answering else folders)
        self.states = {
            number: state for number, state in self.states.items() if number in kept or state.state == UNLOADING
        }
        self.failed = {folder: failure for folder, failure in self.failed.items() if folder in folders.values()}
        return load, sorted(unload)

    def note_duplicates(self, candidates: Mapping[int, list[Path]]) -> list[str]:
        """Records folders that are ignored because another has the same version; returns the new notices."""
        known = self.notices
        self.notices = {
            number: f"{', '.join(path.name for path in ignored)}: ignored, since {chosen.name} is the same version"
            for number, (chosen, *ignored) in candidates.items()
            if ignored
        }
        return [notice for number, notice in self.notices.items() if notice != known.get(number)]

    def _fallback(self, wanted: list[int], older: list[int], waiting: Collection[int]) -> list[int]:
        """Returns the older versions to load because no wanted version can be served."""
        if not set(wanted) <= set(waiting) or self.serving.keys() & set(wanted):
            return []
        tried = []
        for number in reversed(older):
            if number <= max(self.serving, default=-1):
                break
            tried.append(number)
            if number not in waiting:
                if number not in self.loading:
                    names = ", ".join(map(str, wanted))
                    logger.warning("%s: version %s cannot be served; falling back to %d", self.name, names, number)
                break
        return tried

    def _is_missing(self, number: int, folder: Path) -> bool:
        if number in self.loading:
            return False
        return number not in self.serving or self.serving[number].folder != folder

    def serve(self, number: int, loaded: LoadedVersion) -> LoadedVersion | None:
        """Puts a loaded version into service; returns the version that it replaces."""
        replaced = self.serving.get(number)
        self.serving[number] = loaded
        self.loading.discard(number)
        self.failed.pop(loaded.folder, None)
        self.states[number] = VersionState(number, AVAILABLE)
        return replaced

    def fail(self, version: VersionState, folder: Path, signature: Signature | None, now: float) -> bool:
        """Records a failed load; returns True if its state or error differ from the folder's last failure."""
        last = self.failed.get(folder)
        # If the files have changed, the next retry is soon.
        failures = last.failures + 1 if last and last.signature in (signature, None) else 1
        pause = min(RETRY_SECONDS * 2.0 ** min(failures - 1, 16), MAX_RETRY_SECONDS)
        # The messages of an incomplete version change with each file that arrives.
        news = (version.state, "" if version.state == START else version.error)
        self.failed[folder] = FailedLoad(signature, failures, now + pause, news)
        self.loading.discard(version.version)
        serves = version.version in self.serving
        self.states[version.version] = VersionState(version.version, AVAILABLE, version.error) if serves else version
        return last is None or last.news != news

    def status(self) -> dict[int, VersionState]:
        """Returns the states by version, with the error of the model's folder."""
        return {
            number: VersionState(number, state.state, state.error or self.notices.get(number, "") or self.error)
            for number, state in self.states.items()
        }


def close_version(holder: list[LoadedVersion]) -> None:
    """Closes the only version in `holder`, emptied so that no caller keeps a reference, and frees its memory."""
    holder.pop().close()
    release_memory()
