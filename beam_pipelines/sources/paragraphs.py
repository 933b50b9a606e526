"""From a document's text to what every format yields for it."""

from __future__ import annotations

from collections.abc import Iterable

from beam_pipelines.sources.documents import EMPTY, OVER_LONG, UNDECODABLE, RawDocument, excerpt


def paragraphs_of(text: str) -> tuple[str, ...]:
    """Returns the lines of `text` that are not blank, stripped. Only a newline ends a line."""
    return tuple(line for line in map(str.strip, text.split("\n")) if line)


def without_surrogates(text: str) -> str:
    """Returns `text` with question marks for the halves of surrogate pairs: JSON can spell them, UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def raw_document(file: str, place: str, paragraphs: Iterable[str], max_document_bytes: int) -> RawDocument:
    """Returns a document, or the excerpt of one that is left out.

    Args:
        file: it came from.
        place: in the file.
        paragraphs: its text.
        max_document_bytes: longer ones (bytes of UTF-8) get the reason `over_long`.

    Returns:
        The document. Its reason is `empty` without paragraphs, and `undecodable` where it holds half of a surrogate
        pair.
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
