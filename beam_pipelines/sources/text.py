"""Plain text: one sentence or paragraph per line, blank lines between documents; plain, .gz, .bz2 or .zst."""

from __future__ import annotations

from collections.abc import Iterator

from beam_pipelines.errors import InputError
from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import (
    EXCERPT_CHARACTERS,
    OVER_LONG,
    UNDECODABLE,
    Part,
    RawDocument,
    excerpt,
)

# Bytes of white space around a line that do not count for its length; any more do.
_MARGIN = 1 << 16


class Text(lines.RangeFormat):
    """Documents are runs of non-blank lines; a blank line may contain Unicode white space.

    A document belongs to the part in which the last blank line before it begins, and the first document to the first
    part. Every document is therefore read once and completely, however the file is split.
    """

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the documents of `part`.

        The size of a document is the size of its stripped lines. A document with a line that is not UTF-8 has the
        reason `undecodable` and the place of that line. Raises InputError if the file cannot be read to its end, or is
        a single part without text.
        """
        limit = self.settings.max_document_bytes
        longest = limit + _MARGIN
        document = _Document(part, limit)
        belongs, has_documents = not part.begin, False
        for number, offset, line in lines.read_lines(part, longest):
            cut = len(line) == longest
            stripped = line if cut else line.strip()
            text, fault = lines.decoded(stripped)
            if text or cut:
                if belongs:
                    document.add(number, offset, stripped, text, fault)
                elif offset >= part.end:
                    return
                continue
            if document.size:
                has_documents = True
                yield document.finished()
                document = _Document(part, limit)
            if part.end and offset >= part.end:
                return
            belongs = True
        if document.size:
            yield document.finished()
        elif not has_documents and not part.end:
            raise InputError(f"{part.path}: has no text.")


class _Document:
    """One document while its lines are read; text over the limit is counted but not kept."""

    def __init__(self, part: Part, limit: int) -> None:
        self.size = 0
        self._part = part
        self._limit = limit
        self._place = self._bad_place = ""
        self._paragraphs: list[str] = []
        self._bad_line = ""

    def add(self, number: int, offset: int, line: bytes, text: str, fault: int) -> None:
        """Adds the stripped bytes and text of a non-blank line; `fault` is its first byte that is not UTF-8, or -1."""
        if not self.size:
            self._place = lines.place(self._part, number, offset)
        self.size += len(line)
        if self.size <= self._limit:
            self._paragraphs.append(text)
        elif len(self._paragraphs) != 1 or len(self._paragraphs[0]) > EXCERPT_CHARACTERS:
            self._paragraphs = list(excerpt([*self._paragraphs, text]))
        if fault >= 0 and not self._bad_place:
            self._bad_place, self._bad_line = lines.place(self._part, number, offset), lines.around(line, fault)

    def finished(self) -> RawDocument:
        """Returns the document, or its excerpt with the reason for leaving it out."""
        if self.size > self._limit:
            return RawDocument(self._part.path, self._place, excerpt(self._paragraphs), OVER_LONG)
        if self._bad_place:
            return RawDocument(self._part.path, self._bad_place, (self._bad_line,), UNDECODABLE)
        return RawDocument(self._part.path, self._place, tuple(self._paragraphs))
