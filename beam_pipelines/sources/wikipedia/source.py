"""Wikipedia and other wikis: article passages of MediaWiki XML dumps, plain, gzip or (multistream) bz2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from beam_pipelines.sources.documents import (
    MALFORMED,
    UNDECODABLE,
    InputFile,
    Part,
    RawDocument,
    excerpt,
    raw_document,
)
from beam_pipelines.sources.lines import RangeFormat
from beam_pipelines.sources.wikipedia.dump_files import (
    chunks_of,
    ends_file,
    index_of,
    is_index,
    is_multistream,
    stream_parts,
)
from beam_pipelines.sources.wikipedia.dump_pages import (
    Extent,
    MalformedPageError,
    Page,
    PageBytes,
    pages_of,
    parsed_page,
    place_of,
    site_info_of,
)
from beam_pipelines.sources.wikipedia.names import WikiNames, is_disambiguation, is_redirect
from beam_pipelines.sources.wikipedia.wikitext import passages

NAMESPACE, REDIRECT, DISAMBIGUATION = "namespace", "redirect", "disambiguation"
NO_PASSAGES, NOT_WIKITEXT = "no_passages", "not_wikitext"
# MediaWiki's limit for a page is 2 MiB of wikitext, which grows when it is escaped.
_WIKITEXT_BYTES = 4 << 20


class Wikipedia(RangeFormat):
    """One document per article; other namespaces, redirects, disambiguations and empty pages are left out.

    Templates are rendered by the tables of the wiki's language, which is stated in the head of the dump, or else by
    those of `language`. Pages with passages longer than `max_document_bytes`, or with XML more than about twice as
    long, are left out with the reason `over_long`.
    """

    # Measured on a part of the English dump without talk pages, rounded up.
    text_per_byte: ClassVar[dict[str, float]] = {"": 0.5, ".bz2": 1.5, ".gz": 1.5}

    def split(self, file: InputFile) -> Iterator[Part]:
        """Yields byte ranges, or stream ranges if a multistream dump has an index file."""
        if is_index(file.path):
            yield Part(file.path, size=file.size)
        elif index := index_of(file.path):
            yield from stream_parts(file, index)
        else:
            yield from super().split(file)

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the pages of `part`; an index file has none."""
        if is_index(part.path):
            return
        site = site_info_of(chunks_of(Part(part.path)))
        names = WikiNames().with_local(site.namespaces, site.language or self.language)
        longest = 2 * self.settings.max_document_bytes + _WIKITEXT_BYTES
        for page in pages_of(part.path, chunks_of(part), _extent(part), longest):
            yield self._document(part, page, names)

    def _document(self, part: Part, page_bytes: PageBytes, names: WikiNames) -> RawDocument:
        place = place_of(page_bytes.content, page_bytes.offset)
        if is_multistream(part) and place.startswith("byte "):
            place += f" of the text from byte {part.begin}"
        if page_bytes.fault:
            return RawDocument(part.path, place, _beginning(page_bytes.content), page_bytes.fault)
        try:
            page = parsed_page(page_bytes.content)
        except UnicodeDecodeError:
            return RawDocument(part.path, place, _beginning(page_bytes.content), UNDECODABLE)
        except MalformedPageError:
            return RawDocument(part.path, place, _beginning(page_bytes.content), MALFORMED)
        if reason := _reason(page, names):
            return RawDocument(part.path, place, excerpt([page.text]), reason)
        paragraphs = passages(page.text, names)
        if not paragraphs:
            return RawDocument(part.path, place, excerpt([page.text]), NO_PASSAGES)
        return raw_document(part.path, place, paragraphs, self.settings.max_document_bytes)


def _extent(part: Part) -> Extent:
    if is_multistream(part):
        return Extent(has_head=part.begin == 0, has_end=ends_file(part))
    return Extent(part.begin, part.end, has_head=part.begin == 0)


def _reason(page: Page, names: WikiNames) -> str:
    """Returns the reason for leaving out a page, empty for an article."""
    if names.namespace_of(page.title) if page.namespace is None else page.namespace:
        return NAMESPACE
    if page.redirect or is_redirect(page.text):
        return REDIRECT
    if page.model != "wikitext":
        return NOT_WIKITEXT
    return DISAMBIGUATION if is_disambiguation(page.title, page.text) else ""


def _beginning(content: bytes) -> tuple[str, ...]:
    return excerpt([content[:1000].decode(errors="replace")])
