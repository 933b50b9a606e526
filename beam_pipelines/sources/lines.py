"""Reads lines of plain or compressed files, whole or in byte ranges, from Beam's file systems in bounded memory."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow
from apache_beam.io.filesystem import BeamIOError

from beam_pipelines.errors import InputError
from beam_pipelines.output import storage
from beam_pipelines.sources.documents import EXCERPT_CHARACTERS, Format, InputFile, Part

# Size of a part of a plain file: some seconds of work, so that all workers finish at about the same time.
PART_BYTES = 32 << 20
COMPRESSED = (".bz2", ".gz", ".zst")
READ_ERRORS = (EOFError, OSError, zlib.error, pyarrow.lib.ArrowException, BeamIOError)

_BUFFER = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Signatures of files that are not text, and their kinds.
_SIGNATURES = (
    (b"\x1f\x8b", "gzip: its name must end in .gz"),
    (b"BZh91AY&SY", "bzip2: its name must end in .bz2"),
    (b"\x28\xb5\x2f\xfd", "Zstandard: its name must end in .zst"),
    (b"\xfd7zXZ\x00", "xz: decompress it, or use .gz, .bz2 or .zst"),
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"PAR1", "Parquet: read it with the format parquet"),
    (b"\xff\xfe", "UTF-16: convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16: convert it to UTF-8"),
)


class RangeFormat(Format):
    """Base class of the formats whose plain files can be read from any byte on."""

    def split(self, file: InputFile) -> Iterator[Part]:
        """Yields ranges of about `PART_BYTES` at equal distances, or the whole file if it is small or compressed."""
        count = 1 if file.path.endswith(COMPRESSED) else round(file.size / PART_BYTES)
        if count <= 1:
            yield from super().split(file)
            return
        edges = [file.size * number // count for number in range(count + 1)]
        for begin, end in itertools.pairwise(edges):
            yield Part(file.path, begin, end, end - begin, file.label)


def place(part: Part, number: int, offset: int) -> str:
    """Returns the human-readable position of a line: its number if the part begins the file, else its byte offset."""
    return f"byte {offset}" if part.begin else f"line {number}"


def read_lines(part: Part, longest: int) -> Iterator[tuple[int, int, bytes]]:
    """Yields the lines from the beginning of `part` to the end of the file; the caller stops the iteration.

    A line is its number from 1, counted from the start of the part; the offset of its first byte in the (decompressed)
    file; and its bytes with the newline. Only a newline ends a line. Of a line over `longest` bytes, `longest` bytes
    are kept, and the rest is skipped in bounded memory. A byte order mark at the start of the file is dropped. Raises
    InputError if the file is missing, damaged, truncated, shorter than the part, or of another kind.
    """
    number = offset = 0
    try:
        with opened(part.path) as stream:
            if part.end:
                offset = _seek_line(stream, part)
            else:
                _check_signature(part.path, stream.peek(16))
            while line := stream.readline(longest):
                number += 1
                yield number, offset, line if offset else line.removeprefix(_BYTE_ORDER_MARK)
                offset += len(line)
                if len(line) == longest and not line.endswith(b"\n"):
                    offset += _skip_line(stream)
    except READ_ERRORS as error:
        where = place(part, number, offset)
        raise InputError(f"{part.path}: missing, damaged or truncated after {where}: {error}") from error


def read_bytes(path: str, at_most: int) -> bytes:
    """Reads at most `at_most` bytes from the beginning of a file, decompressed according to its suffix.

    Raises InputError if the file is missing, damaged, truncated, or of another kind.
    """
    try:
        with opened(path) as stream:
            _check_signature(path, stream.peek(16))
            return stream.read(at_most)
    except READ_ERRORS as error:
        raise InputError(f"{path}: missing, damaged or truncated: {error}") from error


def decoded(line: bytes) -> tuple[str, int]:
    """Returns the stripped text of a line and the index of its first byte that is not UTF-8, or -1."""
    try:
        return line.decode().strip(), -1
    except UnicodeDecodeError as error:
        return line.decode(errors="replace").strip(), error.start


def around(line: bytes, fault: int) -> str:
    """Returns the text around the byte `fault` of `line`, the first that is not UTF-8."""
    width = EXCERPT_CHARACTERS // 2
    return (line[:fault].decode()[-width:] + line[fault:][: 4 * width].decode(errors="replace")[:width]).strip()


@contextlib.contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """Opens the file at `path` for buffered binary reading, decompressed according to its suffix."""
    with (
        storage.opened(path) as raw,
        contextlib.closing(_decompress(path, raw)) as stream,
    ):
        yield stream


def _decompress(path: str, raw: BinaryIO) -> io.BufferedReader:
    if path.endswith(".bz2"):
        return io.BufferedReader(_Bz2Streams(raw), _BUFFER)
    if path.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), _BUFFER)
    if path.endswith(".zst"):
        # Unlike the package zstandard, pyarrow detects truncated streams.
        source = pyarrow.PythonFile(raw, mode="r")
        return io.BufferedReader(pyarrow.CompressedInputStream(source, "zstd"), _BUFFER)
    # Readers of object stores may be unbuffered; reading a line would then take one call per byte.
    return raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw, _BUFFER)  # type: ignore[arg-type]


class _Bz2Streams(io.RawIOBase):
    """Reads all streams of a .bz2 file. `bz2.BZ2File` treats a damaged second stream as the end of the file."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._stream = bz2.BZ2Decompressor()
        self._fresh = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data
                self._stream = bz2.BZ2Decompressor()
                self._fresh = True
            if not data and self._stream.needs_input:
                data = self._raw.read(_BUFFER)
                if not data and self._fresh:
                    return 0
                if not data:
                    raise EOFError("the bzip2 stream has no end")
            self._fresh = False
            if text := self._stream.decompress(data, len(buffer)):
                buffer[: len(text)] = text
                return len(text)


def _check_signature(path: str, head: bytes) -> None:
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            raise InputError(f"{path}: is not UTF-8 text but {kind}. Received: {head[:8]!r}")


def _seek_line(stream: io.BufferedReader, part: Part) -> int:
    """Seeks to the first line that begins in or after `part`; returns its offset."""
    check_size(part, stream.seek(0, io.SEEK_END))
    if not part.begin:
        stream.seek(0)
        _check_signature(part.path, stream.peek(16))
        return 0
    # Starts one byte earlier, at the position of a possible newline.
    return stream.seek(part.begin - 1) + _skip_line(stream, part.end - part.begin + 1)


def check_size(part: Part, size: int) -> None:
    """Raises InputError if a file of `size` bytes ends before `part` does."""
    if size < part.end:
        raise InputError(f"{part.path}: has {size} bytes, but had at least {part.end} when the run began.")


def _skip_line(stream: io.BufferedReader, at_most: int | None = None) -> int:
    """Reads to the end of a line, or slightly more than `at_most` bytes; returns the number of bytes read."""
    skipped = 0
    while line := stream.readline(_BUFFER):
        skipped += len(line)
        if line.endswith(b"\n") or (at_most is not None and skipped >= at_most):
            break
    return skipped
