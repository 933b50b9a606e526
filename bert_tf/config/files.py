"""Atomic file writes, checksums and directory locks."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bert_tf.config.paths import local_path

logger = logging.getLogger(__name__)
# Error codes of file systems that do not support locks, such as mounted object stores.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
# Full disk or quota: the operating system does not name the file in a write error.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Temporary files that a killed process may leave behind; safe to delete if no process is writing.
STAGING_PATTERN = ".*.tmp"


@contextmanager
def only_writer(directory: Path, doing: str, wait: bool = False) -> Iterator[None]:
    """Locks a directory against other writers on this machine while the block runs.

    Args:
        directory: existing directory.
        doing: action of the block, used in the messages of other processes: `another process is DOING`.
        wait: wait until no other process holds the lock.

    Raises:
        RuntimeError: if another process holds the lock, unless `wait`, or has just deleted the directory.
    """
    # A lock on the directory itself needs no lock file and is released when the process ends.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not wait:
                raise RuntimeError(
                    f"another process is {doing} {directory}; wait until it ends, or choose another directory"
                ) from error
            print(f"waiting: another process is {doing} {directory}", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            logger.warning("%s: the file system does not support locks; concurrent writers go undetected", directory)
        if not _is_at(directory, descriptor):
            raise RuntimeError(f"another process has just deleted {directory}; run the command again")
        yield
    finally:
        os.close(descriptor)


def _is_at(directory: Path, descriptor: int) -> bool:
    """Returns False if the opened directory was deleted, even if a new one has the same name."""
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False


@contextmanager
def staged_file(path: str | Path) -> Iterator[BinaryIO]:
    """Writes a file atomically: opens a temporary file next to `path` and renames it when the block succeeds.

    The temporary name is unique, so two workers with the same task do not interfere. File and directory are
    synchronised to disk. If the block raises, the temporary file is deleted.

    Args:
        path: destination; an existing file is replaced.

    Yields:
        The binary file to write to.

    Raises:
        ConfigError: if `path` is a URL.
        OSError: if the file cannot be written; names `path` if the disk is full.
    """
    path = local_path(path)
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with staging.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    except OSError as error:
        staging.unlink(missing_ok=True)
        if error.errno in _NO_SPACE and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_file(path: str | Path, content: bytes) -> None:
    """Writes `content` to `path` atomically; see `staged_file`."""
    with staged_file(path) as file:
        file.write(content)


def sha256_of(path: Path) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_directory(directory: Path) -> None:
    """Synchronises the entries of `directory` to disk, so that a rename survives a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
