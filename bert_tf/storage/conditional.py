"""Conditional writes: an object is created only if it is absent, or replaced only if nobody else has written it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any


def create(system: Any, key: str, content: bytes) -> None:
    """Writes an object that must not exist.

    Args:
        system: file system of fsspec.
        key: path of the object in the file system.
        content: content of the object.

    Raises:
        FileExistsError: if the object exists.
    """
    _refused_by_name(lambda: system.pipe_file(key, content, mode="create"), key)


def replace(system: Any, key: str, content: bytes, tag: str, tag_of: Callable[[dict[str, Any]], str]) -> None:
    """Replaces an object that must still have a tag.

    Google Cloud Storage compares the generation and S3 the ETag while it writes. Other file systems, and S3 servers
    without conditional writes, are asked for the tag before the write.

    Args:
        system: file system of fsspec.
        key: path of the object in the file system.
        content: new content of the object.
        tag: tag of the object when it was read.
        tag_of: returns the tag in the description of an object.

    Raises:
        FileExistsError: if the object has another tag, or none because it was deleted.
    """
    try:
        _refused_by_name(lambda: _replace(system, key, content, tag, tag_of), key)
    except FileNotFoundError as error:
        raise FileExistsError(f"{key} was deleted") from error


def _replace(system: Any, key: str, content: bytes, tag: str, tag_of: Callable[[dict[str, Any]], str]) -> None:
    schemes = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    if "gs" in schemes:
        bucket, _, name = key.partition("/")
        # gcsfs has no argument for other generations than 0, which is that of an absent object.
        url = system.base.replace("/storage/v1/", f"/upload/storage/v1/b/{bucket}/o")
        system.call("POST", url, uploadType="media", name=name, ifGenerationMatch=tag, data=content)
        return
    if "s3" in schemes:
        try:
            system.pipe_file(key, content, IfMatch=f'"{tag}"')
            return
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
    if tag_of(system.info(key)) != tag:
        raise FileExistsError(f"{key} was replaced")
    system.pipe_file(key, content)


def _refused_by_name(write: Callable[[], object], key: str) -> None:
    """Calls `write`, and raises FileExistsError if its condition does not hold."""
    try:
        write()
    except FileExistsError:
        raise
    except OSError as error:
        # s3fs reports the status 412 as "invalid argument".
        if "PreconditionFailed" in repr(error.__cause__):
            raise FileExistsError(f"{key} was written by another process") from error
        raise
