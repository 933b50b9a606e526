"""Finds the pages of a MediaWiki XML dump in its bytes, so that a damaged page does not affect others.

Text is escaped in XML, so `<page>` is always a tag, even if reading begins inside a page. The bytes between two pages
belong to one reader; they are blank, or a page with a damaged tag.
Schema: https://www.mediawiki.org/wiki/Help:Export#Export_format
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree import ElementTree

from beam_pipelines.errors import InputError
from beam_pipelines.sources.documents import MALFORMED, OVER_LONG

# More than the head of any dump (about 5 kB) and any damaged bytes worth keeping.
HEAD_BYTES = 1 << 18

_NEXT = re.compile(rb"<page>|</mediawiki>")
_CLOSE = re.compile(rb"</page>|<page>|</mediawiki>")
_LONGEST_MARK = len(b"</mediawiki>")
_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^<>]*\?>\s*)?<mediawiki(?:\s[^<>]*)?>\s*(?:<siteinfo>.*?</siteinfo>\s*)?", re.S
)
_TITLE = re.compile(rb"<title>([^<]{1,1000})</title>")
_ID = re.compile(rb"<id>(\d{1,20})</id>")
# The language of the wiki: an attribute in all but very old dumps, and the prefix of the database name.
_LANGUAGE = re.compile(r'<mediawiki\s[^<>]*\bxml:lang="([A-Za-z]{2,12}(?:-[A-Za-z\d]{1,12})*)"')
_DATABASE = re.compile(r"<dbname>([a-z]{2,12})(?:_[a-z_]{1,20})?wik[a-z]{1,12}</dbname>")
_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^<>]*>([^<]+)</namespace>')


class MalformedPageError(ValueError):
    """A page that is not valid XML or lacks a required element."""


class PageBytes(NamedTuple):
    """The bytes of a page: offset of the first byte, the bytes, and a fault if the page cannot be read."""

    offset: int
    content: bytes
    fault: str = ""


class SiteInfo(NamedTuple):
    """The wiki of a dump: language code, empty if unknown, and numbers and names of namespaces."""

    language: str
    namespaces: list[tuple[int, str]]


class Page(NamedTuple):
    """A page: `namespace` is None in old dumps without namespaces; `redirect` is True if it is marked as a redirect."""

    title: str
    namespace: int | None
    redirect: bool
    model: str
    text: str


@dataclass(frozen=True)
class Extent:
    """The section of a dump that a reader sees, and the pages that belong to it."""

    first: int = 0  # offset of the first byte; if it is not 0, the reader skips to the first page
    end: int = 0  # pages that begin at or after this offset belong to another reader (0: no limit)
    has_head: bool = True  # True if the section begins with the head of the dump
    has_end: bool = True  # True if the section includes the end of the dump


def pages_of(path: str, chunks: Iterable[bytes], extent: Extent, longest: int) -> Iterator[PageBytes]:
    """Yields the pages of an extent from its bytes; non-blank bytes between pages are yielded as malformed pages.

    Of pages over `longest` bytes the beginning is yielded with the reason `over_long`. Raises InputError, which names
    `path`, if the file is not a dump, or ends too early.
    """
    window = _Window(chunks, extent.first)
    begin = window.offset
    gap, mark = window.until(_NEXT, HEAD_BYTES, stop=extent.end if extent.first else 0)
    if extent.has_head:
        gap = _after_head(path, gap)
    elif extent.first:
        gap = b""  # the end of another reader's page
        if not mark:
            return
    has_ended = has_pages = False
    while True:
        if gap.strip():
            has_pages = True
            yield PageBytes(begin, gap, MALFORMED)
        if not mark:
            break
        has_ended = mark == b"</mediawiki>"
        if not has_ended:
            begin = window.offset - len(mark)
            if extent.end and begin >= extent.end:
                return
            has_pages = True
            yield _page(path, begin, window, longest, extent)
        begin = window.offset
        gap, mark = window.until(_NEXT, HEAD_BYTES)
        head = _HEAD.match(gap) if has_ended else None
        if head:  # concatenated dumps
            gap = gap[head.end() :]
    if extent.has_end and not has_ended:
        raise InputError(f"{path}: ends at byte {window.offset} without </mediawiki>: the dump is truncated.")
    if not has_pages and extent == Extent():
        raise InputError(f"{path}: has no page.")


class _Window:
    """A byte stream, read from mark to mark in bounded memory; `offset` is the offset of the next byte."""

    def __init__(self, chunks: Iterable[bytes], offset: int) -> None:
        self._chunks = iter(chunks)
        self._buffer = b""
        self._base = offset
        self._position = 0

    @property
    def offset(self) -> int:
        return self._base + self._position

    def back(self, mark: bytes) -> None:
        """Moves back before the last mark."""
        self._position -= len(mark)

    def until(self, marks: re.Pattern[bytes], longest: int, stop: int = 0) -> tuple[bytes, bytes]:
        """Reads to the end of the next mark, and returns the bytes before it and the mark, which is empty if absent.

        At most `longest + 1` of the bytes before the mark are kept. The search stops at the offset `stop` (0: at the
        end).
        """
        kept = bytearray()
        while True:
            match = marks.search(self._buffer, self._position)
            cut = match.start() if match else max(self._position, len(self._buffer) - _LONGEST_MARK + 1)
            kept += self._buffer[self._position : cut][: max(0, longest + 1 - len(kept))]
            if match:
                self._position = match.end()
                return bytes(kept), match[0]
            self._position = cut
            if stop and self.offset >= stop:
                return bytes(kept), b""
            chunk = next((chunk for chunk in self._chunks if chunk), b"")
            if not chunk:
                kept += self._buffer[cut:][: max(0, longest + 1 - len(kept))]
                self._position = len(self._buffer)
                return bytes(kept), b""
            self._base += cut
            self._buffer, self._position = self._buffer[cut:] + chunk, 0


def _after_head(path: str, gap: bytes) -> bytes:
    head = _HEAD.match(gap)
    if not head:
        raise InputError(
            f"{path}: is not a MediaWiki XML dump: it does not begin with <mediawiki>. Received: {gap[:60]!r}"
        )
    return gap[head.end() :]


def _page(path: str, begin: int, window: _Window, longest: int, extent: Extent) -> PageBytes:
    content, mark = window.until(_CLOSE, longest)
    if not mark and extent.has_end:
        where = f"{place_of(content, begin)}, at byte {window.offset}"
        raise InputError(f"{path}: ends within {where}: the dump is truncated.")
    closed = mark == b"</page>"
    if not closed:
        window.back(mark)
    if len(content) > longest:
        return PageBytes(begin, content[:HEAD_BYTES], OVER_LONG)
    return PageBytes(begin, b"<page>" + content + (mark if closed else b""), "" if closed else MALFORMED)


def place_of(content: bytes, offset: int) -> str:
    """Returns the human-readable position of a page: its number and title if readable, else its byte offset."""
    head = content[:HEAD_BYTES].partition(b"<revision>")[0]
    title, number = _TITLE.search(head), _ID.search(head)
    if not title or not number:
        return f"byte {offset}"
    return f"page {number[1].decode()} ({html.unescape(title[1].decode(errors='replace'))})"


def site_info_of(chunks: Iterable[bytes]) -> SiteInfo:
    """Returns the site information in the head of a dump; `chunks` are the dump's bytes."""
    head = b""
    for chunk in chunks:
        head += chunk
        if b"</siteinfo>" in head or b"<page>" in head or len(head) > HEAD_BYTES:
            break
    text = head.partition(b"</siteinfo>")[0].partition(b"<page>")[0].decode(errors="replace")
    namespaces = [(int(number), html.unescape(name)) for number, name in _NAMESPACE.findall(text)]
    language = _LANGUAGE.search(text) or _DATABASE.search(text)
    return SiteInfo(language[1].lower() if language else "", namespaces)


def parsed_page(content: bytes) -> Page:
    """Parses the XML of one page; of several revisions the last one is used.

    Raises UnicodeDecodeError if the page is not UTF-8, and MalformedPageError if it is not XML, or lacks title or text.
    """
    content.decode()
    try:
        element = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise MalformedPageError(str(error)) from error
    title, revision = element.findtext("title"), element.findall("revision")[-1:]
    text = revision[0].find("text") if revision else None
    if not title or text is None:
        raise MalformedPageError("the page lacks its title or its text")
    empty = not text.text and "deleted" not in text.attrib
    if empty and text.get("bytes", "0") != "0":
        raise MalformedPageError(f"the page has {text.get('bytes')} bytes of text, but the dump lacks them")
    namespace = element.findtext("ns")
    if namespace is not None and not re.fullmatch(r"-?\d{1,9}", namespace):
        raise MalformedPageError(f"<ns> must be a number. Received: {namespace!r}")
    return Page(
        title,
        None if namespace is None else int(namespace),
        element.find("redirect") is not None,
        revision[0].findtext("model", "wikitext"),
        text.text or "",
    )
