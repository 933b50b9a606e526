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
# Those that a mounted object store answers.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
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
            raise RuntimeError(f"another process is {doing} {directory}") from error
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            logger.warning("%s: its file system has no locks; nothing keeps another process away", directory)
        yield
    finally:
        os.close(descriptor)


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
    """
    path = local_path(path)
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with staging.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
