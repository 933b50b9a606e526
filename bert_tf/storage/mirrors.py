"""Mirrors of training data: small files are copied, shards are fetched when they are read.

A mirror is a data directory without shards, with the file `.mirror.json`. Its shards are in `.shards`, named by their
checksums, so that a shard of other data is never taken for one of these.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bert_tf.config import ConfigError, local_path
from bert_tf.config.files import sha256_of, write_file
from bert_tf.storage.cache import cache_directory, folder_of, locked, name_of, read_journal, write_journal
from bert_tf.storage.errors import StoreError, is_full_disk
from bert_tf.storage.stores import Store, StoredFile, is_url

VARIABLE = "BERT_TF_DATA_CACHE_BYTES"
# Number of shards that are fetched ahead of the reader.
AHEAD = 2
MIRROR_NAME = ".mirror.json"
_SHARDS = ".shards"
_SHARD_SUFFIX = ".tfrecord"
# Share of the free disk, with the shards that are cached already, that the cache may take by default.
_SHARE = 0.5
# The shards used last are never removed: a process may have opened one or be about to.
_KEPT = 16
_KEPT_ON_FULL_DISK = 4
# Downloads of a shard whose checksum is wrong.
_ATTEMPTS = 3

_LOGGER = logging.getLogger(__name__)


def data_path(path: str | Path) -> Path:
    """Returns a local data directory as it is, and the mirror of a URL.

    Args:
        path: data directory, or its URL.

    Returns:
        The data directory.

    Raises:
        FileNotFoundError: if nothing exists at the URL.
        StoreError: if the store refuses or does not answer.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.storage import Store, data_path
        >>> _ = Store("memory://bucket/data").upload(Path("data/manifest.json"), "manifest.json")
        >>> bert_tf.read_manifest(data_path("memory://bucket/data")) == bert_tf.read_manifest("data")
        True
    """
    return _mirrored(str(path).rstrip("/"), cache_directory()) if is_url(path) else local_path(path)


@functools.lru_cache
def _mirrored(url: str, cache: Path) -> Path:
    """Copies the small files of the data at `url`, once in each process for a cache directory."""
    store = Store(url)
    folder = folder_of("data", url)
    root = folder / name_of(url)
    files = store.files()
    if not files or "" in files:
        raise FileNotFoundError(f"{url} {'is a file' if files else 'does not exist'}: it must be a data directory")
    small = {name: file for name, file in files.items() if not name.endswith(_SHARD_SUFFIX)}
    with locked(folder):
        _update(store, folder, root, small)
    return root


def is_mirror(directory: Path) -> bool:
    """Returns True if the shards of a data directory are fetched when they are read."""
    return (directory / MIRROR_NAME).is_file()


def _update(store: Store, folder: Path, root: Path, files: dict[str, StoredFile]) -> None:
    shown = {name: file for name, file in files.items() if not any(part[0] == "." for part in name.split("/"))}
    journal = read_journal(folder).get("files", {})
    for name in journal.keys() - shown.keys():
        (root / name).unlink(missing_ok=True)
    for name, file in shown.items():
        if journal.get(name) != [file.size, file.tag] or not (root / name).is_file():
            store.download(name, root / name, file)
    for name in shown:
        if Path(name).name == "manifest.json":
            url = store.path(name).rpartition("/")[0]
            write_file(root / Path(name).parent / MIRROR_NAME, json.dumps({"url": url}).encode())
    write_journal(folder, {"url": store.url, "files": {n: [f.size, f.tag] for n, f in shown.items()}})


class Shard(Protocol):
    """A shard in a manifest: file name, size in bytes, and SHA-256."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def bytes(self) -> int: ...  # noqa: D102

    @property
    def sha256(self) -> str: ...  # noqa: D102


class Mirror:
    """Shards of a mirrored data directory, shared by all processes of this machine."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        self._shards = directory / _SHARDS
        self._store = Store(url)

    @classmethod
    def at(cls, directory: Path) -> Mirror | None:
        """Returns the mirror in a data directory, None for a directory with its own shards."""
        try:
            url = json.loads((directory / MIRROR_NAME).read_bytes())["url"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{directory / MIRROR_NAME} is damaged. Delete {directory}.") from error
        return cls(directory, url)

    def path(self, shard: Shard) -> Path:
        """Returns the path of a shard, which may not have been fetched."""
        return self._shards / f"{shard.name.removesuffix(_SHARD_SUFFIX)}.{shard.sha256[:16]}{_SHARD_SUFFIX}"

    def fetcher(self, shards: Sequence[Shard]) -> Callable[[Path], Path]:
        """Returns a function from the path of a shard to the same path, which fetches the shard if it is absent."""
        by_path = {self.path(shard): shard for shard in shards}
        return lambda path: self.fetch(by_path[Path(path)])

    def fetch(self, shard: Shard) -> Path:
        """Returns the path of a shard that has been compared with its checksum; fetches it if it is absent.

        Other processes of this machine wait for the same shard instead of fetching it twice.

        Raises:
            ValueError: if the shard in the store does not match the manifest.
            FileNotFoundError: if it does not exist in the store.
            StoreError: if the store refuses or does not answer.
        """
        path = self.path(shard)
        with locked(self._shards, f".{path.name}.lock"):
            if not path.is_file():
                self._download(shard, path)
            # The time of the last use.
            os.utime(path)
        _remove_unused(_KEPT)
        return path

    def _download(self, shard: Shard, path: Path) -> None:
        fetched = path.with_name(f".{path.name}.fetched")
        try:
            for _ in range(_ATTEMPTS):
                self._transfer(shard, fetched)
                if (digest := sha256_of(fetched)) == shard.sha256:
                    fetched.replace(path)
                    return
                _LOGGER.warning("%s/%s: the checksum of the download is wrong", self.url, shard.name)
        finally:
            fetched.unlink(missing_ok=True)
        raise ValueError(
            f"{self.url}/{shard.name}: SHA-256 must be {shard.sha256} by the manifest. Received: {digest}. Run "
            "`bert-tf data` again, or upload this file again."
        )

    def _transfer(self, shard: Shard, target: Path) -> None:
        file = StoredFile(shard.bytes, "")
        try:
            self._store.download(shard.name, target, file)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.url}/{shard.name} is missing, but the manifest lists it.") from error
        except StoreError:
            raise
        except OSError as error:
            if not is_full_disk(error):
                raise
            _remove_unused(_KEPT_ON_FULL_DISK, limit=0)
            self._store.download(shard.name, target, file)


def _remove_unused(kept: int, limit: int | None = None) -> None:
    """Removes the shards used least recently until the cache is within its limit; `kept` shards always stay."""
    found = []
    for path in (cache_directory() / "data").rglob(f"{_SHARDS}/*{_SHARD_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            found.append((stat.st_mtime_ns, stat.st_size, path))
    used = sum(size for _, size, _ in found)
    allowed = _limit(used) if limit is None else limit
    for _, size, path in sorted(found)[: max(0, len(found) - kept)]:
        if used <= allowed:
            return
        # A process that has opened the shard can read it to the end.
        path.unlink(missing_ok=True)
        used -= size


def _limit(used: int) -> int:
    """Returns the size of the cache in bytes."""
    text = os.environ.get(VARIABLE)
    if not text:
        return int(_SHARE * (used + shutil.disk_usage(cache_directory()).free))
    if not text.isdigit():
        raise ConfigError(f"{VARIABLE} must be a number of bytes. Received: {text!r}")
    return int(text)
