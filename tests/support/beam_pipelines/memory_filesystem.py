"""A file system in memory, `mem://bucket/name`, with the rules of an object store.

There are no directories, nothing is renamed, and a file appears when it is closed. Importing it registers it.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem

OBJECTS: dict[str, bytes] = {}
# Paths opened for reading.
OPENED: set[str] = set()


class MemoryFileSystem(FileSystem):
    @classmethod
    def scheme(cls) -> str:
        return "mem"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        pass

    def has_dirs(self) -> bool:
        return False

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        for path in sorted(OBJECTS):
            if path.startswith(prefix):
                yield self.metadata(path)

    def create(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> BinaryIO:
        return Upload(path)

    def open(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> BinaryIO:
        OPENED.add(path)
        return io.BytesIO(self._content(path))

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise AssertionError("nothing is to be copied")

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise AssertionError("an object store has no rename")

    def exists(self, path: str) -> bool:
        return path in OBJECTS

    def size(self, path: str) -> int:
        return len(self._content(path))

    def checksum(self, path: str) -> str:
        return f"{zlib.crc32(self._content(path)):08x}"

    def last_updated(self, path: str) -> float:
        return 1.0

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, len(self._content(path)), 1.0)

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            if OBJECTS.pop(path, None) is None:
                raise BeamIOError("no such object", {path: path})

    @staticmethod
    def _content(path: str) -> bytes:
        try:
            return OBJECTS[path]
        except KeyError:
            raise BeamIOError("no such object", {path: path}) from None


class Upload(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            OBJECTS[self._path] = self.getvalue()
        super().close()
