"""A small part of a corpus, spread evenly over it, and how many bytes on disk it stands for."""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

import pyarrow.parquet
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from beam_pipelines.sources.corpus import Corpus, reader_of
from beam_pipelines.sources.documents import Format, InputFile, Part, RawDocument, ReadSettings
from beam_pipelines.sources.jsonl import Jsonl
from beam_pipelines.sources.lines import COMPRESSED
from beam_pipelines.sources.parquet import Parquet
from beam_pipelines.sources.text import Text
from beam_pipelines.sources.wikipedia.source import Wikipedia

# Text to read in all, and bytes on disk at most: a few thousand documents, and some seconds of work.
SAMPLE_BYTES = 8_000_000
_MOST_BYTES = 12_000_000
# Places of the corpus to read at, as many as there are parts for them.
_PLACES = 16
# Formats whose plain files can be read from any byte on.
_SEEKABLE = (Text, Jsonl, Wikipedia)
# Bytes given to a format at a time: little, for its reading ahead blurs what it has read.
_STEP = 32 << 10

Place = tuple[int, int]  # numbers of a file and of a part of it


@dataclass(frozen=True)
class Unit:
    """Documents that stand next to one another.

    Args:
        source: number of their input.
        documents: in order, those that are left out too.
        bytes: what they take on disk, compressed as they are.
        seconds: of CPU time it took to read them.
    """

    source: int
    documents: list[RawDocument]
    bytes: float
    seconds: float


def read_sample(corpus: Corpus, settings: ReadSettings, text_bytes: int = SAMPLE_BYTES) -> list[Unit]:
    """Reads a sample of every input, at places that are spread evenly over its bytes.

    A compressed file that has one part is read from its beginning only.

    Args:
        corpus: what to sample.
        settings: what the formats are told.
        text_bytes: of text to read in all, about.

    Returns:
        The units. An input that is small is in them as a whole.

    Raises:
        InputError: for what cannot be read.
    """
    units: list[Unit] = []
    part = min(1.0, text_bytes / max(corpus.text_bytes, 1), _MOST_BYTES / max(corpus.bytes, 1))
    for source, own in enumerate(corpus.inputs):
        files = corpus.files_of(source)
        size = sum(file.size for file in files)
        share = sum(map(corpus.text_bytes_of, files)) / max(corpus.text_bytes, 1)
        places = max(1, round(_PLACES * share))
        reader = _SourceReader(reader_of(own.format, own.language, settings), source, files, part * size / places)
        units += reader.read(places)
    return units


class _SourceReader:
    """Reads one input.

    Args:
        format: of the input.
        source: its number.
        files: of it.
        quota: bytes on disk to read at a place.
    """

    def __init__(self, format: Format, source: int, files: list[InputFile], quota: float) -> None:
        self._format = format
        self._source = source
        self._files = files
        self._quota = quota

    def read(self, places: int) -> Iterator[Unit]:
        """Yields the units of all places, reading on into the next parts where one is too small."""
        if self._quota * places >= sum(file.size for file in self._files):
            parts = self._parts_from((0, 0), Counter())
            yield from self._joined(unit for part in parts for unit in self._read_part(part, math.inf))
            return
        starts = Counter(self._places(places))
        left = 0.0
        for place, count in sorted(starts.items()):
            units = list(self._joined(self._read_place(self._parts_from(place, starts), left + self._quota * count)))
            left += self._quota * count - sum(unit.bytes for unit in units)
            yield from units

    def _read_place(self, parts: Iterable[Part], wanted: float) -> Iterator[Unit]:
        for part in parts:
            for unit in self._read_part(part, wanted):
                wanted -= unit.bytes
                yield unit
            if wanted <= 0:
                return

    def _joined(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yields units of about the quota of a place, of as many small ones as that takes."""
        pending: list[Unit] = []
        for unit in units:
            pending.append(unit)
            if sum(own.bytes for own in pending) >= self._quota:
                yield _join(pending)
                pending = []
        if pending:
            yield _join(pending)

    def _places(self, count: int) -> Iterator[Place]:
        """Yields places at equal distances in bytes."""
        total = sum(file.size for file in self._files)
        before = number = 0
        for place in range(count):
            wanted = total * (2 * place + 1) / (2 * count)
            while before + self._files[number].size <= wanted:
                before += self._files[number].size
                number += 1
            end = before
            for index, part in enumerate(self._parts(self._files[number])):
                end += part.size
                if wanted < end:
                    yield number, index
                    break

    def _parts(self, file: InputFile) -> list[Part]:
        if not isinstance(self._format, _SEEKABLE) or file.path.endswith(COMPRESSED):
            return list(self._format.split(file))
        count = max(1, round(file.size / max(self._quota, 1)))
        edges = [file.size * number // count for number in range(count + 1)]
        return [Part(file.path, begin, end, end - begin, file.label) for begin, end in pairwise(edges)]

    def _parts_from(self, place: Place, starts: Counter[Place]) -> Iterator[Part]:
        """Yields the parts from `place` up to the next place."""
        for number in range(place[0], len(self._files)):
            for index, part in enumerate(self._parts(self._files[number])):
                if (number, index) > place and (number, index) in starts:
                    return
                if (number, index) >= place:
                    yield part

    def _read_part(self, part: Part, wanted: float) -> list[Unit]:
        """Reads `wanted` bytes of one part, or all of it.

        The bytes that documents take are known where the format asks for more: then those it was given are in the
        documents that it gave, but for what it holds back, which is about the same each time. So units lie between
        two such marks, and what comes before the first mark is left aside, unless all of the part is read.
        """
        documents: list[RawDocument] = []
        marks: list[_Mark] = []
        parquet = isinstance(self._format, Parquet)
        name = self._format.settings.text_field
        with _column_bytes(part, name) if parquet else _given_bytes() as position:
            begun = now = time.process_time()
            text_bytes, here = 0, 0.0
            for document in self._format.read(part):
                text_bytes += _text_bytes(document)
                read = position(text_bytes)
                if documents and read != here and (not marks or here - marks[-1].position >= self._quota / 2):
                    marks.append(_Mark(len(documents), here, now))
                    if here - marks[0].position >= wanted:
                        return [self._unit(documents, *pair) for pair in pairwise(marks)]
                here, now = read, time.process_time()
                documents.append(document._replace(source=self._source))
        return [Unit(self._source, documents, part.size, time.process_time() - begun)]

    def _unit(self, documents: list[RawDocument], begin: _Mark, end: _Mark) -> Unit:
        own = documents[begin.documents : end.documents]
        return Unit(self._source, own, end.position - begin.position, end.seconds - begin.seconds)


def _join(units: Sequence[Unit]) -> Unit:
    documents = [document for unit in units for document in unit.documents]
    return Unit(units[0].source, documents, sum(unit.bytes for unit in units), sum(unit.seconds for unit in units))


class _Mark(NamedTuple):
    """Documents given, bytes read and CPU seconds used at one moment."""

    documents: int
    position: float
    seconds: float


@contextlib.contextmanager
def _column_bytes(part: Part, name: str) -> Iterator[Callable[[int], float]]:
    """Yields what tells how many bytes of a part of a Parquet file stand behind so much text.

    Of such a file one column is read, with seeks, so that the bytes read would not tell; its metadata do.
    """
    with FileSystems.open(part.path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        metadata = pyarrow.parquet.ParquetFile(file).metadata
        groups = [metadata.row_group(group) for group in range(part.begin, part.end or metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    own = [column for column in columns if f"{column.path_in_schema}.".startswith(f"{name}.")]
    text = sum(column.total_uncompressed_size for column in own)
    yield lambda text_bytes: part.size * min(1.0, text_bytes / max(text, 1))


class _CountedFile(io.RawIOBase):
    """A file that gives little at a time and counts it."""

    def __init__(self, file: BinaryIO, given: list[int]) -> None:
        self._file = file
        self._given = given

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
        self._given[0] += len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def _given_bytes() -> Iterator[Callable[[int], float]]:
    """Yields what tells how many bytes were read from files that were opened meanwhile.

    All formats open files through Beam, so it is there that bytes are counted, and formats need not know of it. Where
    none are (files opened otherwise), parts are read as a whole.
    """
    given = [0]
    opened = FileSystems.open

    def counted(path: str, *args: Any, **kwargs: Any) -> BinaryIO:
        return _CountedFile(opened(path, *args, **kwargs), given)  # type: ignore[return-value]

    FileSystems.open = staticmethod(counted)  # type: ignore[method-assign]
    try:
        yield lambda text_bytes: given[0]
    finally:
        FileSystems.open = staticmethod(opened)  # type: ignore[method-assign]


def _text_bytes(document: RawDocument) -> int:
    """Returns the size of a document as one text, with the four bytes for its length that Parquet has."""
    return sum(len(paragraph.encode(errors="replace")) + 1 for paragraph in document.paragraphs) + 3
