"""Atomic writes of files and directories, checksums and directory locks."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bert_tf.config.errors import ConfigError
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


def check_replaceable(directory: Path, known: Collection[str], marker: str) -> None:
    """Checks that replacing `directory` does not delete unrelated files.

    Args:
        directory: output directory, which may be missing or empty.
        known: names of the files that the directory may contain.
        marker: name of the file that a non-empty directory must contain.

    Raises:
        ConfigError: if `directory` is a file or contains other files.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfigError(f"{directory}: expected a directory. Received: a file")
    names = {entry.name for entry in directory.iterdir()}
    other = sorted(names - set(known)) if marker in names else sorted(names)
    if other:
        raise ConfigError(
            f"{directory}: must be missing, empty or a preset. Received: a directory that contains {other}"
        )


def replace_directory(directory: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` on a staging directory, then renames it to `directory`.

    If `write` fails, the previous content is unchanged. If the process is killed between the two renames, the previous
    content remains in `set_aside(directory)`; the next call restores it.

    Args:
        directory: directory to replace; parents are created as needed.
        write: function that writes to the directory passed to it.
    """
    directory = directory.resolve()
    staging, aside = directory.with_name(f".{directory.name}.staging"), set_aside(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    if aside.exists():
        if directory.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(directory)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir()
        write(staging)
        if directory.exists():
            directory.rename(aside)
        staging.rename(directory)
    except BaseException:
        if aside.exists() and not directory.exists():
            aside.rename(directory)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def set_aside(directory: Path) -> Path:
    """Returns the path at which `replace_directory` keeps the previous content during the renames."""
    return directory.with_name(f".{directory.name}.previous")
