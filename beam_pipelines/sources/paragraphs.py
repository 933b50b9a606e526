"""Converts the text of a document to a RawDocument, for all formats."""

from __future__ import annotations

from collections.abc import Iterable

from beam_pipelines.sources.documents import EMPTY, OVER_LONG, UNDECODABLE, RawDocument, excerpt


def paragraphs_of(text: str) -> tuple[str, ...]:
    """Returns the stripped non-blank lines of `text`. Only a newline ends a line."""
    return tuple(line for line in map(str.strip, text.split("\n")) if line)


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates in `text` by question marks; JSON can represent them, UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def raw_document(file: str, place: str, paragraphs: Iterable[str], max_document_bytes: int) -> RawDocument:
    """Builds a document, or the excerpt of a document that is left out.

    Args:
        file: path of the file.
        place: position in the file.
        paragraphs: text of the document.
        max_document_bytes: maximum size in bytes of UTF-8; longer documents have the reason `over_long`.

    Returns:
        The document. Its reason is `empty` if it has no paragraphs, and `undecodable` if it has a lone surrogate.
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
