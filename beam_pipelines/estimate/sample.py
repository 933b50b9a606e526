"""Reads a small sample, spread evenly over a corpus, and the bytes on disk that it represents."""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

from beam_pipelines.output import storage
from beam_pipelines.sources.corpus import Corpus, reader_of
from beam_pipelines.sources.documents import Format, InputFile, Part, RawDocument, ReadSettings
from beam_pipelines.sources.lines import COMPRESSED, RangeFormat
from beam_pipelines.sources.parquet import Parquet, column_bytes, opened_parquet

# Total text to read, and maximum bytes on disk: a few thousand documents and some seconds of work.
SAMPLE_BYTES = 8_000_000
_MOST_BYTES = 12_000_000
# Places of the corpus to read at, limited by the number of parts.
_PLACES = 16
# Bytes passed to a format at a time; small, because read-ahead blurs the count of bytes read.
_STEP = 32 << 10

Place = tuple[int, int]  # index of a file and of one of its parts


@dataclass(frozen=True)
class Unit:
    """A run of consecutive documents of one input."""

    source: int  # index of the input
    documents: list[RawDocument]  # in order, including those left out
    bytes: float  # on disk, compressed if the file is
    seconds: float  # CPU time to read the documents


def read_sample(corpus: Corpus, settings: ReadSettings, text_bytes: int = SAMPLE_BYTES) -> list[Unit]:
    """Reads a sample of every input, about `text_bytes` of text in all, at places spread evenly over its bytes.

    A compressed file with one part is read from its beginning only, and a small input completely. Raises InputError if
    a file cannot be read.
    """
    units: list[Unit] = []
    part = min(1.0, text_bytes / max(corpus.text_bytes, 1), _MOST_BYTES / max(corpus.bytes, 1))
    for source, corpus_input in enumerate(corpus.inputs):
        files = corpus.files_of(source)
        size = sum(file.size for file in files)
        share = sum(map(corpus.text_bytes_of, files)) / max(corpus.text_bytes, 1)
        places = max(1, round(_PLACES * share))
        reader = _SourceReader(
            reader_of(corpus_input.format, corpus_input.language, settings), source, files, part * size / places
        )
        units += reader.read(places)
    return units


@dataclass(frozen=True)
class _SourceReader:
    """Reads one input."""

    format: Format
    source: int  # index of the input
    files: list[InputFile]
    quota: float  # bytes on disk to read at each place

    def read(self, places: int) -> Iterator[Unit]:
        """Yields the units of all places, continuing into the next parts if one is too small."""
        whole = self.quota * places >= sum(file.size for file in self.files)
        starts = Counter([(0, 0)] if whole else self._places(places))
        left = 0.0
        for place, count in sorted(starts.items()):
            units = list(self._read_place(place, starts, math.inf if whole else left + self.quota * count))
            left += self.quota * count - sum(unit.bytes for unit in units)
            yield from units

    def _read_place(self, place: Place, starts: Counter[Place], wanted: float) -> Iterator[Unit]:
        """Yields about `wanted` bytes from a place up to the next one, in units of about the quota."""
        pending: list[Unit] = []
        for part in self._parts_from(place, starts):
            for unit in self._read_part(part, wanted):
                wanted -= unit.bytes
                pending.append(unit)
                if sum(unit.bytes for unit in pending) >= self.quota:
                    yield _join(pending)
                    pending = []
            if wanted <= 0:
                break
        if pending:
            yield _join(pending)

    def _places(self, count: int) -> Iterator[Place]:
        """Yields places at equal byte distances."""
        total = sum(file.size for file in self.files)
        before = number = 0
        for place in range(count):
            wanted = total * (2 * place + 1) / (2 * count)
            while before + self.files[number].size <= wanted:
                before += self.files[number].size
                number += 1
            end = before
            for index, part in enumerate(self._parts(self.files[number])):
                end += part.size
                if wanted < end:
                    yield number, index
                    break

    def _parts(self, file: InputFile) -> list[Part]:
        if not isinstance(self.format, RangeFormat) or file.path.endswith(COMPRESSED):
            return list(self.format.split(file))
        count = max(1, round(file.size / max(self.quota, 1)))
        edges = [file.size * number // count for number in range(count + 1)]
        return [Part(file.path, begin, end, end - begin, file.label) for begin, end in pairwise(edges)]

    def _parts_from(self, place: Place, starts: Counter[Place]) -> Iterator[Part]:
        """Yields the parts from `place` up to the next place."""
        for number in range(place[0], len(self.files)):
            for index, part in enumerate(self._parts(self.files[number])):
                if (number, index) > place and (number, index) in starts:
                    return
                if (number, index) >= place:
                    yield part

    def _read_part(self, part: Part, wanted: float) -> list[Unit]:
        """Reads `wanted` bytes of one part, or all of it.

        The size of documents on disk is known only when the format reads more bytes: the bytes read before belong to
        the documents already yielded, except for a buffer of about constant size. Units therefore begin and end at
        such marks. Documents before the first mark are skipped, unless the whole part is read.
        """
        documents: list[RawDocument] = []
        marks: list[tuple[int, float, float]] = []  # documents yielded, bytes read, CPU seconds used
        parquet = isinstance(self.format, Parquet)
        name = self.format.settings.text_field
        with _column_bytes(part, name) if parquet else _count_bytes_read() as position:
            begun = now = time.process_time()
            text_bytes, here = 0, 0.0
            for document in self.format.read(part):
                text_bytes += _text_bytes(document)
                read = position(text_bytes)
                if documents and read != here and (not marks or here - marks[-1][1] >= self.quota / 2):
                    marks.append((len(documents), here, now))
                    if here - marks[0][1] >= wanted:
                        return [
                            Unit(self.source, documents[a:b], end - begin, ended - started)
                            for (a, begin, started), (b, end, ended) in pairwise(marks)
                        ]
                here, now = read, time.process_time()
                documents.append(document._replace(source=self.source))
        return [Unit(self.source, documents, part.size, time.process_time() - begun)]


def _join(units: Sequence[Unit]) -> Unit:
    documents = [document for unit in units for document in unit.documents]
    return Unit(units[0].source, documents, sum(unit.bytes for unit in units), sum(unit.seconds for unit in units))


@contextlib.contextmanager
def _column_bytes(part: Part, name: str) -> Iterator[Callable[[int], float]]:
    """Yields a function from bytes of text to bytes of a Parquet part.

    Only one column of the file is read, with seeks, so the size is derived from the metadata instead of bytes read.
    """
    with opened_parquet(part.path) as parquet:
        groups = range(part.begin, part.end or parquet.metadata.num_row_groups)
        text = sum(column_bytes(parquet.metadata.row_group(group), name, "uncompressed") for group in groups)
    yield lambda text_bytes: part.size * min(1.0, text_bytes / max(text, 1))


class _CountedFile(io.RawIOBase):
    """A file that returns few bytes per read and counts them."""

    def __init__(self, file: BinaryIO, count: list[int]) -> None:
        self._file = file
        self._count = count

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(len(buffer), _STEP))
        buffer[: len(content)] = content
        self._count[0] += len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _count_bytes_read() -> Iterator[Callable[[int], float]]:
    """Yields a function that returns the number of bytes read from files opened inside the block.

    All formats open files with `storage.opened`, so bytes are counted there and the formats need no changes. If no
    bytes are counted (files opened otherwise), parts are read as a whole.
    """
    count = [0]
    opened = storage.opened

    def counted(path: str) -> BinaryIO:
        return _CountedFile(opened(path), count)  # type: ignore[return-value]

    storage.opened = counted
    try:
        yield lambda text_bytes: count[0]
    finally:
        storage.opened = opened


def _text_bytes(document: RawDocument) -> int:
    """Returns the size of a document as one text, including Parquet's four bytes for its length."""
    return sum(len(paragraph.encode(errors="replace")) + 1 for paragraph in document.paragraphs) + 3
