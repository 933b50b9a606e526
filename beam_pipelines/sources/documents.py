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
    """Settings of all formats.

    Args:
        max_document_bytes: maximum size in bytes of UTF-8; longer documents are left out with the reason `over_long`.
        text_field: text field (jsonl) or text column (parquet).
    """

    max_document_bytes: int = 10_000_000
    text_field: str = "text"


class Format(ABC):
    """Base class of the reader of one format. Objects are built on the driver and used by workers.

    Args:
        settings: settings of all formats.
        language: ISO 639-1 code of the text, empty if unknown.
    """

    # Estimated bytes of text per byte on disk by suffix; the empty suffix is the default.
    text_per_byte: ClassVar[dict[str, float]] = {"": 1.0}

    def __init__(self, settings: ReadSettings, language: str = "") -> None:
        self.settings = settings
        self.language = language

    def split(self, file: InputFile) -> Iterable[Part]:
        """Yields the independently readable parts of `file`: by default one, the whole file."""
        yield Part(file.path, size=file.size, label=file.label)

    @abstractmethod
    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`, including those left out.

        Args:
            part: part of a file, from `split`.

        Raises:
            InputError: if the part cannot be read in full.
        """


def excerpt(paragraphs: Iterable[str]) -> tuple[str, ...]:
    """Returns the beginning of a document as one paragraph, for documents that are left out."""
    return (" ".join(paragraphs)[:EXCERPT_CHARACTERS],)
