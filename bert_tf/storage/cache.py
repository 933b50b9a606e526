"""The cache directory of this machine: one folder for each URL and use, with a journal of what is in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bert_tf.config.files import write_file

VARIABLE = "BERT_TF_CACHE"
JOURNAL_NAME = ".journal.json"
_LOCK_NAME = ".lock"
_NOT_OURS = f"must be a file of this user, and no link; set {VARIABLE} to a directory of your own"


def cache_directory() -> Path:
    """Returns `BERT_TF_CACHE`, or `bert_tf` in the user's cache directory.

    Example:
        >>> import os
        >>> from bert_tf.storage.cache import cache_directory
        >>> os.environ["BERT_TF_CACHE"] = "cache"
        >>> cache_directory().name
        'cache'
        >>> del os.environ["BERT_TF_CACHE"]
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bert_tf"


def folder_of(kind: str, url: str) -> Path:
    """Returns the folder of a URL for one use (`copies`, `data` or `outputs`); the content is below its last name.

    The content keeps the last name of the URL, because a served model is named by its directory.
    """
    url = url.rstrip("/")
    return cache_directory() / kind / hashlib.sha256(url.encode()).hexdigest()[:16]


def name_of(url: str) -> str:
    """Returns the last name in a URL."""
    return url.rstrip("/").rpartition("/")[2]


@contextlib.contextmanager
def locked(folder: Path, name: str = _LOCK_NAME) -> Iterator[None]:
    """Creates a folder and keeps other processes of this machine out of the block by a lock file in it.

    Raises OSError if the lock is a link or another user's file: in a directory that several users write to, one of them
    could put a link to any file of another one there.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / name
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES):
            raise OSError(error.errno, _NOT_OURS, str(path)) from error
        raise
    try:
        if os.fstat(lock).st_uid != os.getuid():
            raise OSError(errno.EPERM, _NOT_OURS, str(path))
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def read_journal(folder: Path) -> dict[str, Any]:
    """Returns the journal of a folder; empty if it is missing or unreadable."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads((folder / JOURNAL_NAME).read_bytes())
        if isinstance(content, dict):
            return content
    return {}


def write_journal(folder: Path, content: dict[str, Any]) -> None:
    """Writes the journal of a folder atomically."""
    write_file(folder / JOURNAL_NAME, json.dumps(content, indent=1).encode())
