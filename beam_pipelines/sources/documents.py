"""What every source gives: batches of raw documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam

from beam_pipelines.progress import ProgressLog

# Characters in one batch: large enough that Beam's cost for an element vanishes, small enough to stay in cache.
BATCH_CHARACTERS = 1_000_000
OVER_LONG = "over_long"


class RawDocument(NamedTuple):
    """A document as read.

    `source` and `line` (counted from 1) say where it begins, `paragraphs` are its non-blank lines, stripped.
    `reason` is set when the source rejects it; `paragraphs` then holds an excerpt.
    """

    source: str
    line: int
    paragraphs: tuple[str, ...]
    reason: str = ""


class DocumentReader(beam.DoFn):
    """What the readers of all formats are told.

    Args:
        max_document_bytes: longer documents are given with the reason `over_long`.
        progress: where bytes and files read are noted.
    """

    def __init__(self, max_document_bytes: int, progress: ProgressLog) -> None:
        self._max_document_bytes = max_document_bytes
        self._progress = progress


def in_batches(documents: Iterable[RawDocument]) -> Iterator[list[RawDocument]]:
    """Groups `documents` into lists of about `BATCH_CHARACTERS` characters, in order."""
    batch: list[RawDocument] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document.paragraphs))
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
