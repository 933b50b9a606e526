"""Wikipedia articles extracted by wikiextractor, in its text or JSON form; plain, .gz, .bz2 or .zst."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import apache_beam as beam

from beam_pipelines.errors import InputError
from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import (
    MALFORMED,
    OVER_LONG,
    UNDECODABLE,
    Format,
    Part,
    RawDocument,
    excerpt,
    raw_document,
    without_surrogates,
)
from beam_pipelines.sources.jsonl import LINE_FACTOR, LINE_MARGIN, text_fields

NO_PASSAGES = "no_passages"
_END = "</doc>"
_HEADER = re.compile(r"<doc [^>]*\bid=.*>$")
_TITLE = re.compile(r'\btitle="(.*?)"(?=\s+\w+="|\s*>$)')

# Left-over markup within a line: marks for a quick check, and patterns with replacements.
_MARKS = ("&", "<", "[", "{", "__", "()", "( ", "(,", "(;", "（）", "（、", "（，", "  ")
_MARKUP = (
    (re.compile(r"<!--.*?-->|<ref\b[^<>]*/>|<ref\b[^<>]*>.*?</ref>"), ""),
    (re.compile(r"<br\b[^<>]*>"), " "),
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),
    (re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]"), r"\1"),
    (re.compile(r"\{\{[^{}]*\}\}|__[A-Z]+__"), ""),
    (re.compile(r" ?[(（]\s*[,;，、]?\s*[)）]"), ""),
    (re.compile(r" {2,}"), " "),
)
# Lines that are not text; the first match counts. Left-over tables and templates:
_LEFT_OVER = re.compile(r"[{|]\{|[}|]\}|\{\||\[\[|\]\]|^\||(?:colspan|rowspan|style|scope|class|bgcolor)\s*=")
_LIST_ITEM = re.compile(r"^(?:BULLET::::|[*•]|[-–] )")
_MARKED_HEADER = re.compile(r"^(?:Section::::|#{1,6} )")
# Placeholders of removed mathematics and code, which leave incomplete sentences.
_PLACEHOLDER = re.compile(r"(?:formula|codice)_\d")
_FEWEST_WORDS = 5
_FEWEST_COLUMNS = 50
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WIDE_COLUMNS = 5


class WikiExtractor(Format):
    """Pages between `<doc ...>` and `</doc>`, or one JSON object per line; a file may contain both.

    Only text passages are kept, as in the paper (section 3.1 of Devlin et al., 2019: lists, tables and headers are left
    out). The metrics `wikiextractor_*` count all other lines: the title, headers and other short lines, list items,
    left-over markup, and lines with placeholders. A page without passages, of which wikiextractor writes many, has the
    reason `no_passages`.
    """

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the pages of a file. Text outside of pages, and a page in which another one begins, is `malformed`.

        Raises InputError if the file cannot be read to its end, or ends within a page.
        """
        limit = self.settings.max_document_bytes
        longest = LINE_FACTOR * limit + LINE_MARGIN
        dropped: Counter[str] = Counter()
        page: _Page | None = None
        astray = False
        for number, _, line in lines.read_lines(part, longest):
            text, fault = lines.decoded(line)
            if _HEADER.match(text):
                if page:
                    yield page.left_out(MALFORMED)
                page, astray = _Page(part.path, number, _title(text), limit), False
            elif page and text == _END:
                yield page.finished(dropped)
                page = None
            elif page:
                page.add(text, len(line))
            elif text.startswith("{"):
                yield _json_page(part.path, number, line, longest, limit, dropped)
                astray = False
            elif text and not astray:
                yield RawDocument(part.path, f"line {number}", excerpt(["outside of a page:", text]), MALFORMED)
                astray = True
            if page and fault >= 0:
                page.spoil(number, lines.around(line, fault))
        if page:
            raise InputError(f"{part.path}: truncated: {page.place} begins a page that does not end.")
        for what, count in sorted(dropped.items()):
            beam.metrics.Metrics.counter("bert_tf", f"wikiextractor_{what}").inc(count)


class _Page:
    """One page while its lines are read; text over the limit is counted but not kept."""

    def __init__(self, path: str, number: int, title: str, limit: int) -> None:
        self.place = f"line {number} ({title})" if title else f"line {number}"
        self._path = path
        self._title = title
        self._limit = limit
        self._lines: list[str] = []
        self._size = 0
        self._bad_place = self._bad_line = ""

    def add(self, line: str, size: int) -> None:
        """Adds a line of `size` bytes."""
        self._size += size
        if self._size <= self._limit:
            self._lines.append(line)
        else:
            self._lines = list(excerpt([*self._lines, line]))

    def spoil(self, number: int, shown: str) -> None:
        """Records the first line that is not UTF-8."""
        if not self._bad_place:
            self._bad_place, self._bad_line = f"line {number}", shown

    def left_out(self, reason: str) -> RawDocument:
        """Returns an excerpt of the page."""
        return RawDocument(self._path, self.place, excerpt(line for line in self._lines if line), reason)

    def finished(self, dropped: Counter[str]) -> RawDocument:
        """Returns the page, or an excerpt with a reason; counts lines that are not passages in `dropped`."""
        if self._size > self._limit:
            return self.left_out(OVER_LONG)
        if self._bad_place:
            return RawDocument(self._path, self._bad_place, excerpt([self._bad_line]), UNDECODABLE)
        kept = passages(self._lines, self._title, dropped)
        # If every line introduces a list that wikiextractor removed, as in disambiguation pages, there is no passage.
        if all(line.endswith(":") for line in kept):
            return self.left_out(NO_PASSAGES)
        return raw_document(self._path, self.place, kept, self._limit)


def _json_page(path: str, number: int, line: bytes, longest: int, limit: int, dropped: Counter[str]) -> RawDocument:
    texts, reason, shown = text_fields(line, ["title", "text"], longest)
    if reason:
        return RawDocument(path, f"line {number}", shown, reason)
    title, text = texts
    page = _Page(path, number, without_surrogates(title), limit)
    for paragraph in text.split("\n"):
        page.add(paragraph.strip(), len(paragraph.encode(errors="surrogatepass")))
    return page.finished(dropped)


def _title(header: str) -> str:
    match = _TITLE.search(header)
    return html.unescape(match[1]).strip() if match else ""


def passages(page_lines: Iterable[str], title: str, dropped: Counter[str]) -> list[str]:
    """Returns the text passages of a page, given as stripped lines, without left-over markup.

    The first line repeats the title of the page. Other lines are counted by kind in `dropped`.
    """
    kept = []
    beginning = True
    for line in map(without_markup, page_lines):
        if not line:
            continue
        what = "title" if beginning and line == title else not_a_passage(line)
        beginning = False
        if what:
            dropped[what] += 1
        else:
            kept.append(line)
    return kept


def without_markup(line: str) -> str:
    """Removes HTML tags, references, comments and empty parentheses from a line and decodes its entities."""
    if not any(mark in line for mark in _MARKS):
        return line
    # Some versions of wikiextractor escape entities twice.
    line = html.unescape(html.unescape(line))
    for pattern, replacement in _MARKUP:
        line = pattern.sub(replacement, line)
    return line.strip()


def not_a_passage(line: str) -> str:
    """Returns the kind of a line that is not a text passage, or an empty string for a passage.

    Headers are short lines that end in a period added by wikiextractor. Only their length distinguishes them from
    short sentences: in the samples 99 % of lines of up to four words are headers, and about half of lines of five.
    A Chinese or Japanese character counts as a fifth of a word.
    """
    if any(mark in line for mark in "{}[]|=") and _LEFT_OVER.search(line):
        return "left_over_markup"
    if _LIST_ITEM.match(line):
        return "list_item"
    if "_" in line and _PLACEHOLDER.search(line):
        return "placeholder"
    columns = len(line) + (_WIDE_COLUMNS - 1) * len(_WIDE.findall(line[:_FEWEST_COLUMNS]))
    if _MARKED_HEADER.match(line) or (columns < _FEWEST_COLUMNS and len(line.split()) < _FEWEST_WORDS):
        return "short_or_header"
    return ""
