"""Plain text: a sentence or paragraph a line, a blank line between documents; plain, .gz or .bz2."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.errors import InputError
from beam_pipelines.sources.documents import OVER_LONG, DocumentReader, RawDocument, in_batches

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_READ_BUFFER = 1 << 20


class ReadTextFiles(DocumentReader):
    """Streams the documents of one file at a time."""

    def process(self, path: str) -> Iterable[list[RawDocument]]:
        """Yields batches of the documents of the file at `path`."""
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
            noted = 0
            for batch in in_batches(read_documents(path, raw, self._max_document_bytes)):
                position = raw.tell()
                self._progress.note("read", position - noted)
                noted = position
                yield batch
        self._progress.note("files", 1)


def read_documents(path: str, raw: BinaryIO, max_document_bytes: int) -> Iterator[RawDocument]:
    """Yields the documents of one file.

    Args:
        path: its name, for errors; `.gz` and `.bz2` are decompressed.
        raw: its bytes.
        max_document_bytes: longer documents are given as an excerpt with the reason `over_long`.

    Raises:
        InputError: for truncated or damaged compression, bytes that are not UTF-8, or a file without text.
    """
    found = False
    start, size, paragraphs = 0, 0, []  # type: ignore[var-annotated]
    for number, line in _lines(path, raw, max_document_bytes):
        text = _decoded(path, number, line, cut=len(line) > max_document_bytes).strip()
        if not text:
            if size:
                found = True
                yield _document(path, start, size, paragraphs, max_document_bytes)
            start, size, paragraphs = 0, 0, []
            continue
        start = start or number
        size += len(line)
        if size <= max_document_bytes:
            paragraphs.append(text)
        elif not paragraphs:
            paragraphs.append(text[:200])
    if size:
        yield _document(path, start, size, paragraphs, max_document_bytes)
    elif not found:
        raise InputError(f"{path}: holds no text.")


def _document(path: str, line: int, size: int, paragraphs: list[str], limit: int) -> RawDocument:
    if size > limit:
        return RawDocument(path, line, (paragraphs[0][:200],), OVER_LONG)
    return RawDocument(path, line, tuple(paragraphs))


def _lines(path: str, raw: BinaryIO, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, stripped bytes), cut just over `limit` bytes so that memory stays bounded."""
    number = 0
    try:
        with _decompressed(path, raw) as stream:
            while line := stream.readline(limit + 1):
                number += 1
                rest = line
                while len(rest) > limit and not rest.endswith(b"\n"):
                    rest = stream.readline(limit + 1)
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line if len(line) > limit else line.strip()
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path}: damaged or truncated after line {number}: {error}") from error


def _decompressed(path: str, raw: BinaryIO) -> contextlib.AbstractContextManager[BinaryIO]:
    if path.endswith(".bz2"):
        return io.BufferedReader(bz2.BZ2File(raw), _READ_BUFFER)
    if path.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), _READ_BUFFER)
    return contextlib.nullcontext(raw)


def _decoded(path: str, number: int, line: bytes, cut: bool) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if cut and error.start >= len(line) - 4:  # the cut fell inside a character
            return line[: error.start].decode("utf-8")
        raise InputError(
            f"{path}: line {number} is not UTF-8 (byte {error.start} of the line). "
            f"Received: {line[error.start : error.start + 4]!r}"
        ) from error
