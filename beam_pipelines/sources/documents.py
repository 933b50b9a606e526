"""What every format of a corpus gives: batches of raw documents, read part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_pipelines.runners.progress import ProgressLog

# Characters in one batch: large enough that Beam's cost for an element vanishes, small enough to stay in cache.
BATCH_CHARACTERS = 1_000_000
OVER_LONG, EMPTY, UNDECODABLE, MALFORMED = "over_long", "empty", "undecodable", "malformed"
# Documents left out for these become dead letters; all other reasons are a choice, and only counted.
FAULTS = frozenset({OVER_LONG, EMPTY, UNDECODABLE, MALFORMED})
EXCERPT_CHARACTERS = 200


class RawDocument(NamedTuple):
    """A document as read.

    `file` and `place` (for people: `line 12`, `page 345 (Title)`) say where it begins, `paragraphs` are its non-blank
    lines, stripped. `reason` is set when it is left out; `paragraphs` then holds an excerpt. `source` is the number
    of the input it belongs to.
    """

    file: str
    place: str
    paragraphs: tuple[str, ...]
    reason: str = ""
    source: int = 0


@dataclass(frozen=True, order=True)
class InputFile:
    """One file: path, size in bytes, time of its last change in seconds, a label (python_docs), number of its input."""

    path: str
    size: int
    modified: float
    label: str = ""
    source: int = 0


class Part(NamedTuple):
    """What one worker reads at a time.

    `begin` and `end` are what its format likes (bytes, row groups); an `end` of 0 stands for the whole file. `size` is
    what it counts in the progress of the run; the sizes of a file's parts sum to that of the file.
    """

    path: str
    begin: int = 0
    end: int = 0
    size: int = 0
    label: str = ""
    source: int = 0


@dataclass(frozen=True)
class ReadSettings:
    """What all formats are told.

    Args:
        max_document_bytes: longer documents (bytes of UTF-8) are left out with the reason `over_long`.
        text_field: the field (jsonl) or column (parquet) that holds the text.
    """

    max_document_bytes: int = 10_000_000
    text_field: str = "text"


class Format(ABC):
    """How the documents of one format are found in its files. Made on the driver, used by workers.

    Args:
        settings: what all formats are told.
        language: ISO 639-1 code of the text, empty if unknown.
    """

    # Estimated bytes of text in a byte on disk by suffix; the empty suffix is for all others.
    text_per_byte: ClassVar[dict[str, float]] = {"": 1.0}

    def __init__(self, settings: ReadSettings, language: str = "") -> None:
        self.settings = settings
        self.language = language

    def split(self, file: InputFile) -> Iterable[Part]:
        """Yields the parts of `file` that can be read on their own: here one, the whole."""
        yield Part(file.path, size=file.size, label=file.label)

    @abstractmethod
    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`, those that are to be left out too.

        Raises:
            InputError: for what cannot be read in full.
        """


class ReadDocuments(beam.PTransform):
    """Reads the documents of files of one format, spread over the workers.

    Args:
        format: of all the files.
        files: what to read.
        progress: where parts and bytes read are noted.
    """

    def __init__(self, format: Format, files: Iterable[InputFile], progress: ProgressLog) -> None:
        super().__init__()
        self._format = format
        self._files = list(files)
        self._progress = progress

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[list[RawDocument]]:
        """Files to parts to batches of documents."""
        return (
            pipeline
            | "Files" >> beam.Create(self._files)
            | "SpreadFiles" >> beam.Reshuffle()
            | "Split" >> beam.ParDo(_SplitFile(self._format, self._progress))
            | "SpreadParts" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadPart(self._format, self._progress))
        )


class _SplitFile(beam.DoFn):
    def __init__(self, format: Format, progress: ProgressLog) -> None:
        self._format = format
        self._progress = progress

    def process(self, file: InputFile) -> Iterable[Part]:
        parts = [part._replace(source=file.source) for part in self._format.split(file)]
        self._progress.note("parts", len(parts))
        self._progress.note("files", 1)
        yield from parts


class _ReadPart(beam.DoFn):
    """Reads parts. Batches run on over the parts of a bundle: many small files must not make many small batches."""

    def __init__(self, format: Format, progress: ProgressLog) -> None:
        self._format = format
        self._progress = progress

    def start_bundle(self) -> None:
        self._batch: list[RawDocument] = []
        self._characters = 0

    def process(self, part: Part) -> Iterable[list[RawDocument]]:
        for document in self._format.read(part):
            self._batch.append(document._replace(source=part.source))
            # A document that is left out has little text, but is not free.
            self._characters += sum(map(len, document.paragraphs)) + EXCERPT_CHARACTERS
            if self._characters >= BATCH_CHARACTERS:
                yield self._taken()
        self._progress.note("parts_read", 1)

    def finish_bundle(self) -> Iterable[WindowedValue]:
        if self._batch:
            yield GlobalWindows.windowed_value(self._taken())

    def _taken(self) -> list[RawDocument]:
        batch = self._batch
        self._progress.note("documents", len(batch))
        self._progress.note("text", sum(len(text.encode()) for document in batch for text in document.paragraphs))
        self.start_bundle()
        return batch


def excerpt(paragraphs: Iterable[str]) -> tuple[str, ...]:
    """Returns the beginning of a document that is left out, as its paragraphs."""
    return (" ".join(paragraphs)[:EXCERPT_CHARACTERS],)


def in_batches(documents: Iterable[RawDocument]) -> Iterator[list[RawDocument]]:
    """Groups `documents` into lists of about `BATCH_CHARACTERS` characters, in order."""
    batch: list[RawDocument] = []
    size = 0
    for document in documents:
        batch.append(document)
        # A document that is left out has little text, but is not free.
        size += sum(map(len, document.paragraphs)) + EXCERPT_CHARACTERS
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
