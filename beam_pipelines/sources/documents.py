"""Raw documents, and the base class of the corpus formats, which read them part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

# Characters per batch: large enough to make Beam's cost per element negligible, small enough to stay in cache.
BATCH_CHARACTERS = 1_000_000
OVER_LONG, EMPTY, UNDECODABLE, MALFORMED = "over_long", "empty", "undecodable", "malformed"
# Faulty documents become dead letters; all other reasons are settings, and their documents are only counted.
FAULTS = frozenset({OVER_LONG, EMPTY, UNDECODABLE, MALFORMED})
EXCERPT_CHARACTERS = 200


class RawDocument(NamedTuple):
    """A document as read from a file.

    `file` and `place` (human-readable: `line 12`, `page 345 (Title)`) are its position, `paragraphs` its stripped
    non-blank lines. `reason` is set if the document is left out; `paragraphs` is then an excerpt. `source` is the index
    of its input.
    """

    file: str
    place: str
    paragraphs: tuple[str, ...]
    reason: str = ""
    source: int = 0


@dataclass(frozen=True, order=True)
class InputFile:
    """A file: path, size in bytes, modification time in seconds, label (python_docs), and index of its input."""

    path: str
    size: int
    modified: float
    label: str = ""
    source: int = 0


class Part(NamedTuple):
    """A part of a file, read by one worker.

    The unit of `begin` and `end` depends on the format (bytes, row groups); an `end` of 0 means the whole file. `size`
    is used for progress; the sizes of all parts of a file sum to the size of the file.
    """

    path: str
    begin: int = 0
    end: int = 0
    size: int = 0
    label: str = ""
    source: int = 0


@dataclass(frozen=True)
class ReadSettings:
    """Settings of all formats."""

    max_document_bytes: int = 10_000_000  # of UTF-8; longer documents are left out with the reason `over_long`
    text_field: str = "text"  # text field (jsonl) or text column (parquet)


class Format(ABC):
    """Base class of the reader of one format. Objects are built on the driver and used by workers.

    The language of the text is an ISO 639-1 code, empty if unknown.
    """

    # Estimated bytes of text per byte on disk by suffix, the empty suffix for any other: prose, rounded up (measured on
    # Wikipedia: 3.3 for bz2, 2.6 for gzip, 2.7 for zstd).
    text_per_byte: ClassVar[dict[str, float]] = {"": 1.0, ".bz2": 4.0, ".gz": 4.0, ".zst": 4.0}

    def __init__(self, settings: ReadSettings, language: str = "") -> None:
        self.settings = settings
        self.language = language

    def split(self, file: InputFile) -> Iterable[Part]:
        """Yields the independently readable parts of `file`: by default one, the whole file."""
        yield Part(file.path, size=file.size, label=file.label)

    @abstractmethod
    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`, including those left out. Raises InputError if it cannot be read in full."""


class DocumentBatch:
    """Collects documents until they have about `BATCH_CHARACTERS` characters."""

    def __init__(self) -> None:
        self.documents: list[RawDocument] = []
        self._characters = 0

    def add(self, document: RawDocument) -> bool:
        """Adds a document; returns True if the batch is full."""
        self.documents.append(document)
        # A document that is left out has little text but still costs time.
        self._characters += sum(map(len, document.paragraphs)) + EXCERPT_CHARACTERS
        return self._characters >= BATCH_CHARACTERS


def excerpt(paragraphs: Iterable[str]) -> tuple[str, ...]:
    """Returns the beginning of a document as one paragraph, for documents that are left out."""
    return (" ".join(paragraphs)[:EXCERPT_CHARACTERS],)


def paragraphs_of(text: str) -> tuple[str, ...]:
    """Returns the stripped non-blank lines of `text`. Only a newline ends a line."""
    return tuple(line for line in map(str.strip, text.split("\n")) if line)


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates in `text` by question marks; JSON can represent them, UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def raw_document(file: str, place: str, paragraphs: Iterable[str], max_document_bytes: int) -> RawDocument:
    """Builds a document, or the excerpt of a document that is left out.

    The reason is `empty` without paragraphs, `undecodable` with a lone surrogate, and `over_long` with more than
    `max_document_bytes` bytes of UTF-8.
    """
    kept = tuple(paragraphs)
    try:
        size = sum(len(paragraph.encode()) for paragraph in kept)
    except UnicodeEncodeError:
        return RawDocument(file, place, excerpt(map(without_surrogates, kept)), UNDECODABLE)
    if not kept:
        return RawDocument(file, place, (), EMPTY)
    if size > max_document_bytes:
        return RawDocument(file, place, excerpt(kept), OVER_LONG)
    return RawDocument(file, place, kept)


def in_batches(documents: Iterable[RawDocument]) -> Iterator[list[RawDocument]]:
    """Yields batches of the same size as in a run, in order."""
    batch = DocumentBatch()
    for document in documents:
        if batch.add(document):
            yield batch.documents
            batch = DocumentBatch()
    if batch.documents:
        yield batch.documents
