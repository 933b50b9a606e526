"""Books, one per file, as published by Project Gutenberg; .txt, .gz, .bz2 or .zst."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import OVER_LONG, UNDECODABLE, Format, Part, RawDocument, excerpt, raw_document

# Bytes of a book besides its text: header and licence. White space may take as many bytes as the text.
_AROUND_BYTES = 100_000
_HEADER_BYTES = 20_000
_ENCODING = re.compile(rb"^Character set encoding:[ \t]*(.+?)\s*$", re.I | re.M)

# The regular expressions below begin with a literal if possible, which makes the search ten times faster.
# Candidate lines of the next three expressions. The START line begins the text in files since about 2003; its title may
# span several lines. In older files the text begins after the last line of the "Small Print", unless that is below it.
_MARKED = re.compile(r"G(?:utenberg|UTENBERG)|S(?:mall|MALL) P(?:rint|RINT)|ETEXTS\*END\*")
_START = re.compile(
    r"[ *]*\*{3} *START OF (?:THE|THIS) (?:COPYRIGHTED )?PROJECT GUTENBERG E-?(?:BOOK|TEXT)\b"
    r"(?:(?:.*\n(?! *$)){0,4}?.*\*{3} *$|.*$)",
    re.I | re.M,
)
_SMALL_PRINT = re.compile(r" *\*+ *END[ *]*THE SMALL PRINT.*$|.*FOR COPYRIGHT PROTECTED ETEXTS\*END\*.*$", re.I | re.M)
_SMALL_PRINT_BEGINS = re.compile(r" *\*+ *START[ *]*THE SMALL PRINT", re.I)
_LONGEST_SMALL_PRINT = 60_000
_END = re.compile(
    r"[ *]*(?:THIS IS THE )?END OF (?:(?:THE|THIS) )?(?:COPYRIGHTED )?PROJECT GUTENBERG"
    r"|[ *]*ENDE DIESES PRO[JK]E[CK]T GUTENBERG",
    re.I,
)
# Credits of the file's producers, and its name, in the first paragraphs.
_CREDITS = re.compile(
    r"\W*(?:(?:this|the) )?(?:project gutenberg )?(?:(?:e-?text|e-?book|file|edition|version)s? )?"
    r"(?:(?:was|were|is|has been) )?(?:originally |first )?"
    r"(?:produced|prepared|transcribed|scanned|typed|entered|proof(?:ed|read)|digiti[sz]ed|converted|created|contributed"
    r"|provided|submitted)\b(?: and [a-z]+)?.{0,60}?\b(?:by|from)\b"
    r"|\W*(?:(?:HTML version|e-?text) by\b|Note: *(?:Project Gutenberg|Images)|Images of the original pages|Credits?:"
    r"|(?:the )?Project Gutenberg(?:'s)? e-?(?:book|text))|.{0,300}\bDistributed Proofread",
    re.I | re.S,
)
_CREDIT_PARAGRAPHS = 8
_LONGEST_CREDITS = 1500

_ILLUSTRATION = re.compile(r"\[(?:Illustration|Frontispiece)\b(?:[^\[\]]|\[[^\[\]]{0,300}\]){0,2000}\]", re.I)
_PAGE_MARK = re.compile(r"[\[{](?:(?:Pg|Page|p)\.? *)\d+[\]}]|(?<![_^])\{\d+\}", re.I)
_ROMAN = r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})"
_PAGE_NUMBER = re.compile(rf"[\W_]*(?:p(?:age|g)?\.? *)?(?:\d{{1,4}}|{_ROMAN})[\W_]*", re.I)
_ITALICS = re.compile(r"_(?<!\w_)(?=\S)((?:[^_\n]|\n(?!\n))+)_|_(?=\S)((?:[^_\n]|\n(?!\n))+)_(?!\w)")
# Sub- and superscripts are written `H_{2}O`.
_SCRIPT = re.compile(r"[_^]\{(\w+)\}")
_LONE_UNDERSCORE = re.compile(r"_(?<!\w_)(?!_)|_(?<!__)(?!\w)")

# Maximum length of hard-wrapped lines; a file with most of its text in longer lines is not wrapped.
_LONGEST_WRAPPED = 100
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(rf"{_WORD.pattern}\Z")
_LONGEST_WORD = 60
_LINE_HYPHEN = re.compile(r"-\n(?<=[^\W\d_]-\n)(?=[^\W\d_])")
# Lines joined without a space: at dashes, at hyphens between digits, and between CJK characters.
_CJK = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
_SEAM = re.compile(rf"\n(?<!\n\n)(?!\n)(?:(?<=--\n)|(?<=\w-\n)|(?<=—\n)|(?=--|—)|(?<={_CJK}\n)(?={_CJK}))")


class Books(Format):
    """One document per book, without Project Gutenberg's header, credits and licence.

    Lines are joined to paragraphs, which end at blank lines. Captions of illustrations, page numbers and marks of
    italics are removed. Transcribers' notes, headings, footnotes and verse are kept. A file is decoded as UTF-8 or, if
    that fails, with the encoding stated in its header; if both fail, the reason is `undecodable`.
    """

    def read(self, part: Part) -> Iterator[RawDocument]:
        """Yields the single document of a file. Raises InputError if the file cannot be read to its end."""
        limit = self.settings.max_document_bytes
        max_bytes = 2 * limit + _AROUND_BYTES
        content = lines.read_bytes(part.path, max_bytes + 1)
        if len(content) > max_bytes:
            beginning = content[:_HEADER_BYTES].decode(errors="replace")
            yield RawDocument(part.path, "line 1", excerpt(paragraphs_of_book(beginning)), OVER_LONG)
            return
        try:
            text = decoded_book(content)
        except UnicodeDecodeError as error:
            place = f"line {content.count(10, 0, error.start) + 1}"
            begin = content.rfind(b"\n", 0, error.start) + 1
            shown = " ".join(lines.around(content[begin:], error.start - begin).split())
            yield RawDocument(part.path, place, (shown,), UNDECODABLE)
            return
        yield raw_document(part.path, "line 1", paragraphs_of_book(text), limit)


def decoded_book(content: bytes) -> str:
    """Decodes a file and normalises its line ends to newlines.

    Raises UnicodeDecodeError if the file is neither UTF-8 nor in the encoding stated in its header.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        decoded = _decode_as_stated(content)
        if decoded is None:
            raise
        text = decoded
    return re.sub(r"\r+\n|\r", "\n", text)


def _decode_as_stated(content: bytes) -> str | None:
    stated = _ENCODING.search(content[:_HEADER_BYTES])
    if stated is None:
        return None
    name = stated[1].decode("ascii", errors="replace").lower()
    # `ISO Latin-1`, `ISO-646-US (US-ASCII)`, `Codepage 1252`, `Unicode UTF-8`
    names = [name, *re.split(r"[\s(),;/]+", name), re.sub(r".*?(\d{3,4})\D*$", r"cp\1", name)]
    if re.search(r"8859-?_?1\b|latin-?1\b", name):
        # Files declared as Latin-1 often have quotation marks of Windows-1252; other characters are the same in both.
        names = ["cp1252", "latin-1"]
    for name in filter(None, names):
        try:
            return content.decode(name)
        except (LookupError, UnicodeError):
            continue
    return None


def paragraphs_of_book(text: str) -> list[str]:
    """Returns the paragraphs with at least one letter or digit of a whole file, with newlines as line ends."""
    body = without_licence(text)
    body = "\n".join(line.strip() for line in body.split("\n"))
    body = _PAGE_MARK.sub("", _ILLUSTRATION.sub("", body))
    body = _SCRIPT.sub(r"\1", body)
    body = _LONE_UNDERSCORE.sub("", _ITALICS.sub(r"\1\2", body))
    unwrapped = sum(len(line) for line in body.split("\n") if len(line) > _LONGEST_WRAPPED)
    paragraphs = body.split("\n") if unwrapped > len(body) / 2 else re.split("\n\n+", joined_words(body))
    kept = [" ".join(paragraph.split()) for paragraph in paragraphs if not _PAGE_NUMBER.fullmatch(paragraph)]
    return [paragraph for paragraph in kept if any(map(str.isalnum, paragraph))]


def without_licence(text: str) -> str:
    """Returns the text without Project Gutenberg's header and licence; texts from elsewhere are unchanged."""
    begins = [text.rfind("\n", 0, match.start()) + 1 for match in _MARKED.finditer(text)]
    starts = [match for begin in begins if (match := _START.match(text, begin))]
    ends = [begin for begin in begins if _END.match(text, begin)]
    if not starts:
        prints = [match for begin in begins if (match := _SMALL_PRINT.match(text, begin))]
        starts = [match for match in prints[:1] if match.end() < min([_LONGEST_SMALL_PRINT, *ends])]
        starts = [match for match in starts if text[match.end() :].strip()]
        ends += [begin for begin in begins if _SMALL_PRINT_BEGINS.match(text, begin)]
    if not starts and not ends:
        return text
    bodies = []
    position = 0
    for begin in [match.end() for match in starts] or [0]:
        if begin >= position:
            position = min((end for end in ends if end >= begin), default=len(text))
            bodies.append(_without_credits(text[begin:position]))
    return "\n\n".join(bodies)


def _without_credits(body: str) -> str:
    blocks = re.split(r"\n\s*\n", body.strip(), maxsplit=_CREDIT_PARAGRAPHS)
    first, remainder = blocks[:_CREDIT_PARAGRAPHS], blocks[_CREDIT_PARAGRAPHS:]
    kept = [block for block in first if len(block) > _LONGEST_CREDITS or not _CREDITS.match(block)]
    return "\n\n".join(kept + remainder)


def joined_words(body: str) -> str:
    """Removes line breaks within words and at dashes from a hard-wrapped text of stripped lines.

    A hyphen at the end of a line is either part of the word (`to-day`) or a hyphenation. The spelling elsewhere in the
    book decides; if the word does not occur elsewhere, the more frequent case in the book decides. A blank line ends a
    paragraph.
    """
    body = body.replace("\u00ad\n", "")
    hyphens = list(_LINE_HYPHEN.finditer(body))
    words: Counter[str] = Counter()
    for token, count in Counter(body.lower().split()).items() if hyphens else ():
        for word in [token] if token.isalpha() else _WORD.findall(token):
            words[word] += count

    def votes(hyphen: re.Match[str]) -> int:
        left = _LAST_WORD.search(body, max(0, hyphen.start() - _LONGEST_WORD), hyphen.start())
        right = _WORD.match(body, hyphen.end())
        if left is None or right is None or right[0][0].isupper():
            return 1
        return words[f"{left[0]}-{right[0]}".lower()] - words[f"{left[0]}{right[0]}".lower()]

    balance = [votes(hyphen) for hyphen in hyphens]
    usual = 1 if sum(vote > 0 for vote in balance) >= sum(vote < 0 for vote in balance) else -1
    kept = iter("-" if (vote or usual) > 0 else "" for vote in balance)
    return _SEAM.sub("", _LINE_HYPHEN.sub(lambda _: next(kept), body))
