"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# Names of files that a killed process may leave beside the real ones; safe to delete when nobody writes.
STAGING_PATTERN = ".*.tmp"


@contextmanager
def staged_file(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a file beside `path` for writing and renames it to `path` once the block ends well.

    The name is unique, so that two workers given the same task cannot disturb one another. Both file and
    directory are synchronised to disk; when the block raises, nothing stays behind.

    Args:
        path: where the file is to stand; an older file is replaced.

    Yields:
        The binary file to write to.
    """
    path = Path(path)
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
