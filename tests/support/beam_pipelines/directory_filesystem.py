"""A file system in memory, `tree://folder/name`, with the rules of HDFS. Importing this module registers it.

Directories are created with their files. Neither writing nor renaming replaces a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata

from tests.support.beam_pipelines.memory_filesystem import OBJECTS, MemoryFileSystem, Upload


class DirectoryFileSystem(MemoryFileSystem):
    @classmethod
    def scheme(cls) -> str:
        return "tree"

    def has_dirs(self) -> bool:
        return True

    def _list(self, folder: str) -> Iterator[FileMetadata]:
        if not self.exists(folder):
            raise BeamIOError("no such directory", {folder: None})
        start = len(folder.rstrip("/")) + 1
        inside = {path[:start] + path[start:].split("/")[0] for path in OBJECTS if path[:start] == f"{folder}/"}
        for path in sorted(inside):
            yield self.metadata(path) if path in OBJECTS else FileMetadata(path, 0, 1.0)

    def create(
        self,
        path: str,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
    ) -> BinaryIO:
        if self.exists(path):
            raise BeamIOError("already exists", {path: None})
        return Upload(path)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        for source, destination in zip(source_file_names, destination_file_names, strict=True):
            if self.exists(destination):
                raise BeamIOError("already exists", {destination: None})
            OBJECTS[destination] = OBJECTS.pop(source)

    def exists(self, path: str) -> bool:
        return any(own == path or own.startswith(f"{path}/") for own in OBJECTS)

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            for own in [own for own in OBJECTS if own == path or own.startswith(f"{path}/")]:
                del OBJECTS[own]
