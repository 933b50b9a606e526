"""The place of a model's versions: a directory of this machine, or a URL of an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from bert_tf.export.metadata import SAVED_MODEL_NAME
from bert_tf.export.versions import no_version, version_folders, version_names
from bert_tf.storage import Store, input_path, is_url
from bert_tf.storage.copies import copy_path, remove_copy


class VersionSource(Protocol):
    """Versions that can be listed, and whose folders are on this machine while they are loaded."""

    def folders(self) -> dict[int, list[Path]]:
        """Returns the local folders of each version, as `export.versions.version_folders` does."""

    def fetch(self, folder: Path) -> None:
        """Brings the files of a version into its local folder."""

    def release(self, folder: Path) -> None:
        """Removes a version that is no longer served from this machine, if it is a copy."""


class LocalVersions:
    """Versions in a directory."""

    def __init__(self, base_path: Path) -> None:
        self._base_path = base_path

    def folders(self) -> dict[int, list[Path]]:
        """Returns the folders of each version. Raises OSError if the directory cannot be read."""
        return version_folders(self._base_path)

    def fetch(self, folder: Path) -> None:
        """Does nothing."""

    def release(self, folder: Path) -> None:
        """Does nothing."""


class StoredVersions:
    """Versions at a URL. A version without saved_model.pb, which is uploaded last, is still being uploaded."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def folders(self) -> dict[int, list[Path]]:
        """Returns the local folders of each whole version, which may not have been fetched.

        Raises StoreError if the store does not answer; the next poll asks again.
        """
        files = Store(self._url, retries=False).files()
        names = {name.partition("/")[0] for name in files}
        whole = [name for name in names if f"{name}/{SAVED_MODEL_NAME}" in files]
        return {
            number: [copy_path(f"{self._url}/{name}") for name in same] for number, same in version_names(whole).items()
        }

    def fetch(self, folder: Path) -> None:
        """Downloads the files of a version that are new or have changed.

        Raises FileNotFoundError if the version was deleted, StoreError if the store does not answer, and OSError if the
        disk is full.
        """
        input_path(f"{self._url}/{folder.name}")

    def release(self, folder: Path) -> None:
        """Removes the copy of a version."""
        remove_copy(f"{self._url}/{folder.name}")


def version_source(base_path: Path | str) -> VersionSource:
    """Returns the versions in a directory or at a URL."""
    return StoredVersions(str(base_path)) if is_url(base_path) else LocalVersions(Path(base_path))


def check_has_version(base_path: Path | str) -> None:
    """Raises FileNotFoundError if a model has no version, and OSError if its directory cannot be read."""
    is_there = is_url(base_path) or Path(base_path).is_dir()
    if not is_there or not version_source(base_path).folders():
        raise no_version(str(base_path))
