"""Objects below one URL: listing, reading, downloading, uploading and deleting, with retries."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from bert_tf.storage import conditional
from bert_tf.storage.errors import NotRetriedError, StoreError, is_full_disk, missing_file_system, permanent

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://.+")
_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://)[^/@]*:(?![0-9]+/)[^@]*@")
# Fields of a listing that change with an object, the most reliable first: GCS, S3, HDFS and others.
_TAGS = ("generation", "ETag", "etag", "md5Hash", "mtime", "modified", "LastModified", "created")
# Seconds before the second and each later attempt. The clients of stores also repeat requests by themselves.
DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
# Bytes of a request of `Store.open`. s3fs would fetch 50 MB, more than a reader of a part of a file needs.
_BLOCK = 8 << 20

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


def is_url(path: object) -> bool:
    """Returns True for a string such as `gs://bucket/run`.

    Example:
        >>> from bert_tf.storage import is_url
        >>> is_url("s3://bucket/run"), is_url("runs/laptop")
        (True, False)
    """
    return isinstance(path, str) and _URL.fullmatch(path) is not None


def _without_password(url: str) -> str:
    """Returns a URL. Raises StoreError, which does not show it, if it contains a password."""
    if _PASSWORD.match(url):
        shown = _PASSWORD.sub(r"\1…@", url, count=1)
        raise StoreError(
            f"{shown}: a URL must not contain a password or secret key, because URLs are stored and printed. Set it in "
            "the environment (docs/storage.md) and remove it from the URL."
        )
    return url


@dataclass(frozen=True)
class StoredFile:
    """Size of an object in bytes, and a tag that changes with its content.

    `modified` is the time of the last change in seconds since 1970, 0.0 if the listing of the store has none.
    """

    size: int
    tag: str
    modified: float = field(default=0.0, compare=False)


class Store:
    """The objects at a URL or below it.

    Failures that may be temporary are retried with exponential back-off. An upload or download is complete only if the
    sizes of both sides agree.

    Args:
        url: URL of an object or of a common prefix, without a slash at the end.
        sleep: function that waits a number of seconds between two attempts.
        retries: False to fail after the first attempt, for requests that are repeated anyway.

    Raises:
        StoreError: if the package of the URL's scheme is missing, or the URL contains a password.

    Example:
        >>> from bert_tf.storage import Store
        >>> store = Store("memory://bucket/run")
        >>> _ = store.write("notes/a.txt", b"text")
        >>> store.files()["notes/a.txt"].size, store.read("notes/a.txt")
        (4, b'text')
        >>> store.delete("notes/a.txt")
    """

    def __init__(self, url: str, sleep: Callable[[float], None] = time.sleep, *, retries: bool = True) -> None:
        self.url = _without_password(url.rstrip("/"))
        self._sleep, self._delays = sleep, DELAYS if retries else ()
        self._system, self._root = _file_system(self.url)

    def path(self, name: str) -> str:
        """Returns the URL of the object `name`; "" is the URL itself."""
        return f"{self.url}/{name}" if name else self.url

    def files(self) -> dict[str, StoredFile]:
        """Returns all objects by name relative to the URL, in order; "" is an object at the URL itself.

        Raises StoreError if there are none because the bucket does not exist.
        """
        listing = self._retried(lambda: self._find(self._root))
        if not listing:
            self._check_bucket()
        return {name: _stored(info) for name, info in sorted(listing.items())}

    def matches(self) -> dict[str, StoredFile]:
        """Returns the objects whose URL matches this URL, a glob, by URL, in order.

        Raises StoreError if there are none because the bucket does not exist.
        """

        def attempt() -> dict[str, dict[str, Any]]:
            self._system.invalidate_cache()
            return dict(self._system.glob(self._root, detail=True))

        found = {key: info for key, info in self._retried(attempt).items() if info["type"] == "file"}
        if not found:
            self._check_bucket()
        scheme = self.url.partition("://")[0]
        return {f"{scheme}://{key.lstrip('/')}": _stored(info) for key, info in sorted(found.items())}

    def files_with_prefix(self) -> dict[str, StoredFile]:
        """Returns the objects whose URL begins with this URL and a dot: the files of a TensorFlow checkpoint.

        Their names are relative to the parent of the URL.
        """
        parent, _, name = self._root.rpartition("/")
        listing = self._retried(lambda: self._find(parent))
        found = {key: _stored(info) for key, info in sorted(listing.items()) if key.startswith(f"{name}.")}
        return {key: file for key, file in found.items() if "/" not in key}

    def read(self, name: str) -> bytes | None:
        """Returns the content of an object, None if it does not exist."""
        try:
            return self._retried(lambda: bytes(self._system.cat_file(self._key(name))), name)
        except FileNotFoundError:
            return None

    def open(self, name: str) -> BinaryIO:
        """Opens an object for reading. Raises FileNotFoundError if it does not exist."""
        return self._retried(lambda: self._system.open(self._key(name), "rb", block_size=_BLOCK), name)

    def info(self, name: str) -> StoredFile | None:
        """Returns the size and tag of an object, None if it does not exist."""
        try:
            return _stored(self._retried(lambda: self._described(name), name))
        except FileNotFoundError:
            return None

    def write(
        self, name: str, content: bytes, *, create: bool = False, replaces: StoredFile | None = None
    ) -> StoredFile:
        """Writes an object and returns its size and tag.

        With `create`, raises FileExistsError if the object exists; with `replaces`, if it is not that object any more.
        A repeated attempt that finds its own content succeeds.
        """
        key = self._key(name)

        def attempt() -> None:
            if self._system.root_marker:
                # A file system with directories.
                self._system.makedirs(key.rpartition("/")[0], exist_ok=True)
            try:
                if create:
                    conditional.create(self._system, key, content)
                elif replaces:
                    conditional.replace(self._system, key, content, replaces.tag, lambda info: _stored(info).tag)
                else:
                    self._system.pipe_file(key, content)
            except FileExistsError as error:
                # The answer to an earlier attempt may have been lost.
                if not self._has_content(key, content):
                    raise FileExistsError(f"{self.path(name)} was written by another process") from error

        try:
            self._retried(attempt, name)
            return self._info(name, len(content))
        except FileNotFoundError:
            self._check_bucket()
            raise

    def download(self, name: str, target: Path, file: StoredFile) -> None:
        """Downloads an object of a listing beside `target`, then renames it.

        Raises FileNotFoundError if the object does not exist, OSError if the disk is full.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")

        def attempt() -> None:
            self._system.get_file(self._key(name), str(partial))
            size = partial.stat().st_size if partial.exists() else 0
            if size != file.size:
                raise _TruncatedError(f"must have {file.size} bytes. Received: {size}")
            partial.replace(target)

        try:
            self._retried(attempt, name)
        except OSError as error:
            if is_full_disk(error):
                raise OSError(
                    error.errno,
                    f"no space left for {self.path(name)} ({file.size} bytes). Free some space, or set BERT_TF_CACHE "
                    "to a directory on a larger disk",
                    str(target),
                ) from error
            raise
        finally:
            partial.unlink(missing_ok=True)

    def upload(self, source: Path, name: str) -> StoredFile:
        """Uploads a local file and returns size and tag of the object."""

        def attempt() -> StoredFile:
            size = source.stat().st_size
            self._system.put_file(str(source), self._key(name))
            return self._info(name, size)

        try:
            return self._retried(attempt, name)
        except FileNotFoundError:
            self._check_bucket()
            raise

    def delete(self, name: str) -> None:
        """Deletes an object; a missing one is ignored."""
        with contextlib.suppress(FileNotFoundError):
            self._retried(lambda: self._system.rm_file(self._key(name)), name)

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _find(self, root: str) -> dict[str, dict[str, Any]]:
        self._system.invalidate_cache()
        try:
            listing = self._system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        # Objects whose names end with a slash stand for directories. Arrow lists names with or without the first slash.
        return {
            name.lstrip("/").removeprefix(root.lstrip("/")).lstrip("/"): info
            for name, info in listing.items()
            if info["type"] == "file" and not name.endswith("/")
        }

    def _info(self, name: str, size: int) -> StoredFile:
        stored = _stored(self._described(name))
        if stored.size != size:
            raise _TruncatedError(f"must have {size} bytes. Received: {stored.size}")
        return stored

    def _described(self, name: str) -> dict[str, Any]:
        self._system.invalidate_cache()
        return dict(self._system.info(self._key(name)))

    def _has_content(self, key: str, content: bytes) -> bool:
        try:
            return bytes(self._system.cat_file(key)) == content
        except FileNotFoundError:
            return False

    def _check_bucket(self) -> None:
        """Raises StoreError if the bucket does not exist; accounts that may not list the bucket are accepted."""
        if self._system.root_marker:
            # A file system with directories.
            return
        bucket = self._root.strip("/").partition("/")[0]
        try:
            self._retried(lambda: self._system.ls(bucket))
        except FileNotFoundError as error:
            raise NotRetriedError(
                f"{self.url}: the bucket {bucket!r} does not exist. Create it, or correct the URL."
            ) from error
        except NotRetriedError as error:
            _LOGGER.debug("%s: the bucket cannot be listed: %s", self.url, error)

    def _retried(self, attempt: Callable[[], _T], name: str = "") -> _T:
        """Returns the result of `attempt`, which is repeated after temporary failures.

        Raises StoreError after the last attempt, or after the first one if the failure is permanent.
        """
        for delay in (*self._delays, None):
            try:
                return attempt()
            except Exception as error:
                if lasting := permanent(error, self.path(name)):
                    raise lasting from (None if lasting is error else error)
                reason = str(error) or type(error).__name__
                if delay is None:
                    raise StoreError(
                        f"{self.path(name)}: no success after {len(self._delays) + 1} attempts: {reason}. Run the same "
                        "command again when the store answers."
                    ) from error
                _LOGGER.warning("%s: %s; next attempt in %g s", self.path(name), reason, delay)
                self._sleep(delay)
        raise AssertionError("unreachable")


class _TruncatedError(Exception):
    """An object or a download has another size than its source."""


def _file_system(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL and the path in it."""
    scheme = url.partition("://")[0]
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme in ("gs", "gcs") and os.environ.get("STORAGE_EMULATOR_HOST"):
        # An emulator has no accounts and no gRPC, which gcsfs would use to read the kind of a bucket.
        options["token"] = "anon"
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    # gcsfs logs each failed attempt with a traceback; the errors of this package have the reason.
    logging.getLogger("gcsfs").addHandler(logging.NullHandler())
    try:
        import fsspec
    except ImportError as error:
        raise missing_file_system(error, scheme) from error
    try:
        system, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise missing_file_system(error, scheme) from error
    except ValueError as error:
        raise NotRetriedError(f"{url}: {error}. Use a URL such as gs://bucket/run or s3://bucket/run.") from error
    except Exception as error:
        raise permanent(error, url) or StoreError(f"{url}: {error}") from error
    return system, root.rstrip("/")


def _stored(info: dict[str, Any]) -> StoredFile:
    tag = next((info[name] for name in _TAGS if info.get(name)), "")
    # Some file systems list a time as a number, but describe a single file with a date.
    tag = tag.timestamp() if isinstance(tag, datetime.datetime) else tag
    # The names of S3 and of Google Cloud Storage.
    modified = info.get("LastModified") or info.get("mtime")
    seconds = modified.timestamp() if isinstance(modified, datetime.datetime) else 0.0
    return StoredFile(int(info["size"] or 0), str(tag).strip('"'), seconds)
