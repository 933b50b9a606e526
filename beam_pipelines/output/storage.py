"""Reading and writing whole files on any file system Beam knows; local paths are plain paths."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from bert_tf.data.atomic_files import staged_file

T = TypeVar("T")
_PLAIN = CompressionTypes.UNCOMPRESSED
_BLOCK = 1 << 20


def is_local(path: str) -> bool:
    """Tells whether `path` is on this machine."""
    return "://" not in path


def join(directory: str, *names: str) -> str:
    """Returns the path of a file below `directory`."""
    return FileSystems.join(directory, *names)


def split(path: str) -> tuple[str, str]:
    """Returns the directory (`.` for a bare local name) and the name of the file at `path`."""
    if is_local(path):
        return str(Path(path).parent), Path(path).name
    return FileSystems.split(path)


def write(path: str, content: bytes) -> None:
    """Writes the file at `path`, whole or not at all; an older file is replaced."""
    if is_local(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with staged_file(path) as local:
            local.write(content)
    elif _has_directories(path):
        _write_and_rename(path, content)
    else:
        # An object store shows a file once it is closed, in the place of an older one.
        _create(path, content)


def _has_directories(path: str) -> bool:
    return bool(FileSystems.get_filesystem(path).has_dirs())


def _create(path: str, content: bytes) -> None:
    with FileSystems.create(path, compression_type=_PLAIN) as remote:
        remote.write(content)


def _write_and_rename(path: str, content: bytes) -> None:
    """Writes a file to HDFS, which shows files while they are written, and neither creates nor renames over one."""
    folder, name = split(path)
    staging = join(folder, f".{name}.{uuid.uuid4().hex[:12]}.tmp")  # matches `staging.STAGING_PATTERN`
    try:
        _create(staging, content)
        delete([path])
        FileSystems.rename([staging], [path])
    except BaseException:
        delete([staging])
        raise


def checksum(path: str) -> str:
    """Returns the checksum that an object store keeps of the file at `path`, empty where it keeps none.

    It is known without reading the file. Stores compute it in different ways: it can be compared only with
    an earlier one of the same file.
    """
    if is_local(path):
        return ""
    try:
        return str(FileSystems.checksum(path) or "")
    except NotImplementedError:
        return ""


def sha256(path: str) -> str | None:
    """Returns the SHA-256, hexadecimal, of the file at `path`, None where there is none; reads the whole file."""
    if not FileSystems.exists(path):
        return None
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read(path: str) -> bytes | None:
    """Returns the content of the file at `path`, None where there is none."""
    try:
        if not FileSystems.exists(path):
            return None
        with FileSystems.open(path, compression_type=_PLAIN) as file:
            return file.read()
    except FileNotFoundError:  # deleted in between
        return None


def opened(path: str) -> BinaryIO:
    """Opens the file at `path` for reading."""
    return FileSystems.open(path, compression_type=_PLAIN)


def names_in(directory: str) -> dict[str, int]:
    """Returns the entries of `directory` and their sizes; nothing where it does not exist."""
    if is_local(directory):
        entries = sorted(Path(directory).iterdir()) if Path(directory).is_dir() else []
        return {entry.name: entry.lstat().st_size for entry in entries}
    if _has_directories(directory) and not FileSystems.exists(directory):
        return {}
    found = FileSystems.match([join(directory, "*")])[0].metadata_list
    return {FileSystems.split(match.path)[1]: match.size_in_bytes for match in found}


def delete(paths: Iterable[str]) -> None:
    """Deletes files and whole directories; what is not there is left out."""
    for path in paths:
        if is_local(path) or _has_directories(path):
            there = [path] if FileSystems.exists(path) else []
        else:
            # An object store has no directories: one exists as long as something is in it.
            matches = FileSystems.match([path, join(path, "**")])
            there = [found.path for match in matches for found in match.metadata_list]
        if there:
            FileSystems.delete(there)


def write_in(directory: str, writer: Callable[[Path], T]) -> T:
    """Calls `writer` with a local directory; what it writes ends up in `directory`.

    Args:
        directory: where the files are to stand; created when missing.
        writer: writes files into the directory it is given, each atomically.

    Returns:
        What `writer` returns.
    """
    if is_local(directory):
        Path(directory).mkdir(parents=True, exist_ok=True)
        return writer(Path(directory))
    with tempfile.TemporaryDirectory() as staging:
        result = writer(Path(staging))
        for file in sorted(Path(staging).iterdir()):
            write(join(directory, file.name), file.read_bytes())
    return result


def read_in(directory: str, reader: Callable[[Path], T]) -> T:
    """Calls `reader` with a local directory that holds the small files (not the shards) of `directory`."""
    if is_local(directory):
        return reader(Path(directory))
    with tempfile.TemporaryDirectory() as staging:
        for name in names_in(directory):
            if not name.endswith(".tfrecord"):
                Path(staging, name).write_bytes(read(join(directory, name)) or b"")
        return reader(Path(staging))


def read_file(path: str, reader: Callable[[Path], T]) -> T:
    """Calls `reader` with a local file that has the content of the one at `path`."""
    if is_local(path):
        return reader(Path(path))
    content = read(path)
    if content is None:
        raise FileNotFoundError(f"{path}: there is no such file")
    with tempfile.TemporaryDirectory() as staging:
        local = Path(staging, split(path)[1])
        local.write_bytes(content)
        return reader(local)
