"""Reads and writes whole files: local paths are plain paths, S3 is read by `bert_tf.storage`, all others by Beam."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from bert_tf.config.files import staged_file
from bert_tf.storage import Store

T = TypeVar("T")
_PLAIN = CompressionTypes.UNCOMPRESSED
_BLOCK = 1 << 20
_S3 = ("s3://", "s3a://")


def use_options(beam_args: Sequence[str]) -> None:
    """Sets the options of Beam's file systems, such as `--hdfs_host`, which a pipeline would set after their first use.

    Args:
        beam_args: Beam's flags of the command line.
    """
    FileSystems.set_options(PipelineOptions(list(beam_args)))


def _store(path: str) -> Store | None:
    """Returns the store of a URL of S3, None for the paths that Beam reads.

    All commands therefore read S3 alike. Beam's client needs the options of a pipeline, builds itself anew for each
    request, and repeats requests without credentials for ten minutes.
    """
    return Store(path) if path.startswith(_S3) else None


def match(pattern: str) -> list[FileMetadata]:
    """Returns the files whose path matches a glob."""
    if store := _store(pattern):
        return [FileMetadata(url, file.size, file.modified) for url, file in store.matches().items()]
    return list(FileSystems.match([pattern])[0].metadata_list)


def exists(path: str) -> bool:
    """Returns True if there is a file at `path`."""
    if store := _store(path):
        return store.info("") is not None
    return bool(FileSystems.exists(path))


def is_local(path: str) -> bool:
    """Returns True if `path` is on this machine."""
    return "://" not in path


def join(directory: str, *names: str) -> str:
    """Returns the path of a file below `directory`."""
    if directory.startswith(_S3):
        return "/".join([directory.rstrip("/"), *names])
    return FileSystems.join(directory, *names)


def split(path: str) -> tuple[str, str]:
    """Returns the directory (`.` for a bare local name) and the file name of `path`."""
    if is_local(path):
        return str(Path(path).parent), Path(path).name
    if path.startswith(_S3):
        directory, _, name = path.rpartition("/")
        return directory, name
    return FileSystems.split(path)


def write(path: str, content: bytes) -> None:
    """Writes the file at `path` atomically; an existing file is replaced."""
    if is_local(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with staged_file(path) as local:
            local.write(content)
    elif store := _store(path):
        store.write("", content)
    elif _has_directories(path):
        _write_and_rename(path, content)
    else:
        # An object store publishes a file when it is closed and replaces an existing one.
        _create(path, content)


def _has_directories(path: str) -> bool:
    return bool(FileSystems.get_filesystem(path).has_dirs())


def _create(path: str, content: bytes) -> None:
    with FileSystems.create(path, compression_type=_PLAIN) as remote:
        remote.write(content)


def _write_and_rename(path: str, content: bytes) -> None:
    """Writes a file to HDFS, where partial files are visible and neither create nor rename replaces a file."""
    folder, name = split(path)
    staging = join(folder, f".{name}.{uuid.uuid4().hex[:12]}.tmp")  # matches `files.STAGING_PATTERN`
    try:
        _create(staging, content)
        delete([path])
        FileSystems.rename([staging], [path])
    except BaseException:
        delete([staging])
        raise


def checksum(path: str) -> str:
    """Returns the object store's checksum of the file at `path`, or an empty string if absent.

    The file is not read. Stores compute checksums in different ways, so a checksum can be compared only with an
    earlier one of the same file.
    """
    if is_local(path):
        return ""
    if store := _store(path):
        file = store.info("")
        return file.tag if file else ""
    try:
        return str(FileSystems.checksum(path) or "")
    except NotImplementedError:
        return ""


def sha256(path: str) -> str | None:
    """Returns the hexadecimal SHA-256 of the file at `path`, or None if it does not exist; reads the whole file."""
    if not exists(path):
        return None
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read(path: str) -> bytes | None:
    """Returns the content of the file at `path`, or None if it does not exist."""
    if store := _store(path):
        return store.read("")
    try:
        if not FileSystems.exists(path):
            return None
        with opened(path) as file:
            return file.read()
    except FileNotFoundError:  # deleted in between
        return None


def opened(path: str) -> BinaryIO:
    """Opens the file at `path` for reading, without decompression."""
    if store := _store(path):
        return store.open("")
    return FileSystems.open(path, compression_type=_PLAIN)


def names_in(directory: str) -> dict[str, int]:
    """Returns the entries of `directory` and their sizes; empty if it does not exist."""
    if is_local(directory):
        entries = sorted(Path(directory).iterdir()) if Path(directory).is_dir() else []
        return {entry.name: entry.lstat().st_size for entry in entries}
    if store := _store(directory):
        return {name: file.size for name, file in store.files().items() if name and "/" not in name}
    if _has_directories(directory) and not FileSystems.exists(directory):
        return {}
    matches = FileSystems.match([join(directory, "*")])[0].metadata_list
    return {FileSystems.split(match.path)[1]: match.size_in_bytes for match in matches}


def delete(paths: Iterable[str]) -> None:
    """Deletes files and whole directories; missing paths are ignored."""
    for path in paths:
        if store := _store(path):
            for name in store.files():
                store.delete(name)
            continue
        if is_local(path) or _has_directories(path):
            existing = [path] if FileSystems.exists(path) else []
        else:
            # An object store has no directories: a directory exists as long as it has files.
            matches = FileSystems.match([path, join(path, "**")])
            existing = [file.path for match in matches for file in match.metadata_list]
        if existing:
            FileSystems.delete(existing)


def write_in(directory: str, writer: Callable[[Path], T]) -> T:
    """Calls `writer` with a local directory, copies its files to `directory`, and returns its result.

    The directory is created if missing; `writer` must write each file atomically.
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
    """Calls `reader` with a local directory that has the small files (not the shards) of `directory`."""
    if is_local(directory):
        return reader(Path(directory))
    with tempfile.TemporaryDirectory() as staging:
        for name in names_in(directory):
            if not name.endswith(".tfrecord"):
                Path(staging, name).write_bytes(read(join(directory, name)) or b"")
        return reader(Path(staging))


def read_file(path: str, reader: Callable[[Path], T]) -> T:
    """Calls `reader` with a local copy of the file at `path`."""
    if is_local(path):
        return reader(Path(path))
    content = read(path)
    if content is None:
        raise FileNotFoundError(f"{path}: no such file")
    with tempfile.TemporaryDirectory() as staging:
        local = Path(staging, split(path)[1])
        local.write_bytes(content)
        return reader(local)
