"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bert_tf.config import local_path

logger = logging.getLogger(__name__)
# Errors of file systems without locks, such as mounted object stores.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
# A full disk or quota: the operating system's error of a write names no file.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Names of files that a killed process may leave beside the real ones; safe to delete when nobody writes.
STAGING_PATTERN = ".*.tmp"


@contextmanager
def only_writer(directory: Path, doing: str) -> Iterator[None]:
    """Keeps other processes of this machine from writing to a directory as long as the block runs.

    Args:
        directory: exists.
        doing: what the block does, for the message to another: `another process is DOING`.

    Raises:
        RuntimeError: when another process has it.
    """
    # A lock on the directory itself leaves no file behind and ends with the process, however that ends.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(
                f"another process is {doing} {directory}; wait until it ends, or choose another directory"
            ) from error
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            logger.warning("%s: its file system has no locks; nothing keeps another process away", directory)
        if not _is_at(directory, descriptor):
            raise RuntimeError(f"another process has just deleted {directory}; run the command again")
        yield
    finally:
        os.close(descriptor)


def _is_at(directory: Path, descriptor: int) -> bool:
    """Returns False if the opened directory was deleted, even if there is a new one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False


@contextmanager
def staged_file(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a file beside `path` for writing and renames it to `path` once the block ends well.

    The name is unique, so that two workers given the same task cannot disturb one another. Both file and
    directory are synchronised to disk; when the block raises, nothing stays behind.

    Args:
        path: where the file is to stand; an older file is replaced.

    Raises:
        ConfigError: for a URL.

    Yields:
        The binary file to write to.

    Raises:
        OSError: when the file cannot be written; names `path` where the disk is full.
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


def sync_directory(directory: Path) -> None:
    """Writes the entries of `directory` to disk, so that a rename in it outlasts a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
