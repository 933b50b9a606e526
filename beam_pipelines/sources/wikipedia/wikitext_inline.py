"""Converts a wikitext paragraph to plain text: links, emphasis, HTML and entities.

Links, emphasis and entities are matched by regular expressions. The few paragraphs with HTML are parsed to a tree by
`mwparserfromhell`; hidden and struck-out text is dropped, the rest is kept.
"""

from __future__ import annotations

import html
import re

import mwparserfromhell
from mwparserfromhell.nodes import Tag
from mwparserfromhell.wikicode import Wikicode

from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE

_MAX_DEPTH = 40

# The two common forms of links to other pages, without a colon, which would mark a namespace or a language.
_LABELLED_LINK = re.compile(r"\[\[[^\[\]|:\n]++\|([^\[\]|\n]++)\]\]")
_BARE_LINK = re.compile(r"\[\[([^\[\]|:#\n]++)\]\]")
# Every innermost link; a link does not span paragraphs.
_LINK = re.compile(r"\[\[((?:[^\[\]\n]++|\n(?![\n=])|\[(?!\[)|\](?!\]))*+)\]\]")
_UNCLOSED_LINK = re.compile(r"\[\[([^\n]*)")
_FILE_NAME = re.compile(
    r"\.(?:jpe?g|png|gif|svg|tiff?|webp|xcf|pdf|djvu|og[gav]|oga|wav|mid|mp3|webm|flac|stl)\s*$", re.I
)
_TARGET = re.compile(r"[^|\[\]]{0,200}\|")
_EXTERNAL_LINK = re.compile(
    r"\[(?:(?:https?:|ftps?:|news:|irc:|git:|svn:|gopher:|telnet:)?//|mailto:)[^\s\[\]]*+(?:[ \t]++([^\[\]\n]*+))?\]",
    re.I,
)

# Stray marks, or marks joined from halves after the text between them was removed.
_LOST_MARKS = ("{{", "}}", "[[", "]]", "'''")
_QUOTES = re.compile(r"('{2,})")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});")

# HTML that wikitext allows inside a paragraph; any other `<word>` is text.
_INLINE_NAMES = (
    "abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|noinclude|nowiki|onlyinclude|q|rb|rp|rt|rtc|ruby|s|"
    "samp|small|span|strike|strong|style|sub|sup|time|translate|tt|tvar|u|var|wbr|ref|references|math|gallery|includeonly|"
    "section|syntaxhighlight|source|pre|templatestyles|nomobile|lang|html|body|poem|languages|table"
)
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE_NAMES})(?![\w-])[^<>]*>", re.I)
_KNOWN_TAGS = frozenset(_INLINE_NAMES.split("|"))
_DROPPED_TAGS = frozenset(("del", "s", "strike", "style", "rp", "rt", "rtc"))
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
# Limits of paragraphs for the parser, whose time grows quadratically with the number of unclosed tags.
_MAX_PARSED_TAGS, _MAX_PARSED_CHARACTERS = 200, 20_000

# Around dropped text: spaces and separators that may be removed with it, and brackets and quotes that may become empty.
_SPACES = " \t\n\xa0\u2002\u2003\u2009\u200a\u202f\u3000"
_SEPARATORS = _SPACES + ",;:،؛、，；：–—-"
_NO_SPACES = str.maketrans("", "", _SPACES)
_STRAY_SEPARATORS = " ,;،؛、，；"  # at the beginning of a paragraph, after a dropped formula or list
_WIDE_SEPARATORS = "、，；："
_OPENING, _CLOSING = "([（“„«‘‹「『", ")]）”“»’›」』"
_ENDS = ".!?…。！？؟।"
_EMPTY_PAIR = re.compile(rf"[{re.escape(_OPENING)}\"]\x01[{re.escape(_CLOSING)}\"]")
_BLANK_BRACKETS = re.compile(r"[(（](?<!\w.)[\s,;]*[)）]")
_MISPLACED_MARKS = (" ,", " .", "( ", " )", "（ ", " ）", "(,", "(;")
_MISPLACED = re.compile(r" ([,.])(?= |$)|(?<=[(（])[ ,;]+|[,;]? (?=[)）])")
_DOUBLE_MARKS = (",,", ", ,", "، ،", "、、", "，，")
_DOUBLE = re.compile(r"([,،、，])(?: ?\1)+")
_DOUBLE_PERIOD = re.compile(r"(?<!\.)\. ?\.(?!\.)")


def without_links(text: str, names: WikiNames) -> str:
    """Replaces the links of a page without templates by their text; files, categories and languages have none."""
    if "[" not in text:
        return text.replace("]]", "")

    def link(match: re.Match[str]) -> str:
        return _link_text(match[1], names)

    text = _EXTERNAL_LINK.sub(_external_text, text)
    for _ in range(_MAX_DEPTH):
        # Splitting at a pattern with one group and joining replaces matches by the group without a call per match.
        text = "".join(_LABELLED_LINK.split(text))
        text = "".join(_BARE_LINK.split(text))
        text, count = _LINK.subn(link, text)
        if not count:
            break
    if "[[" in text:
        text = _UNCLOSED_LINK.sub(lambda match: _unclosed_text(match[1], names), text)
    return _EXTERNAL_LINK.sub(_external_text, text.replace("]]", ""))


def _external_text(match: re.Match[str]) -> str:
    return match[1] or HOLE


def _link_text(content: str, names: WikiNames) -> str:
    target, bar, label = content.partition("|")
    prefix, colon, _ = target.partition(":")
    if colon and prefix.strip() and (names.is_left_out(prefix) or _FILE_NAME.search(target)):
        return HOLE
    if bar and (shown := label.rpartition("|")[2].strip(" ")):
        return shown
    target = target.strip().lstrip(":#")
    prefix, colon, _ = target.partition(":")
    return HOLE if not target or (colon and names.is_left_out(prefix)) else target


def _unclosed_text(line: str, names: WikiNames) -> str:
    prefix, colon, _ = line.partition(":")
    if colon and names.is_left_out(prefix):
        return HOLE
    return _TARGET.sub("", line, count=1).replace("[[", "")


def plain_text(block: str) -> str:
    """Converts a paragraph of wikitext without links to one line of plain text."""
    if "''" in block:
        block = "\n".join(_without_quotes(line) for line in block.split("\n"))
    if "<" in block and _INLINE_TAG.search(block):
        block = _without_tags(block)
    if "&" in block:
        block = _ENTITY.sub(lambda match: html.unescape(match[0]), block)
    if HOLE in block:
        block = _without_holes(block)
    for mark in _LOST_MARKS:
        if mark in block:
            block = block.replace(mark, "")
    block = " ".join(_BLANK_BRACKETS.sub("", block).split()).lstrip(_STRAY_SEPARATORS)
    if any(mark in block for mark in _DOUBLE_MARKS):
        block = _DOUBLE.sub(r"\1", block)
    return _MISPLACED.sub(r"\1", block) if any(mark in block for mark in _MISPLACED_MARKS) else block


def _without_quotes(line: str) -> str:
    """Removes italic and bold marks by MediaWiki's rules: `L'''île''` is an apostrophe and italics."""
    if "'''" not in line:
        return line.replace("''", "")
    pieces = _QUOTES.split(line)
    lengths = [min(len(mark), 5) if len(mark) != 4 else 3 for mark in pieces[1::2]]
    apostrophes = ["'" if len(mark) > length else "" for mark, length in zip(pieces[1::2], lengths, strict=True)]
    bold = sum(length in (3, 5) for length in lengths)
    italic = sum(length in (2, 5) for length in lengths)
    if bold % 2 and italic % 2:
        candidates = [index for index, length in enumerate(lengths) if length == 3]
        if candidates:
            apostrophes[min(candidates, key=lambda index: _apostrophe_rank(pieces[2 * index]))] += "'"
    pieces[1::2] = apostrophes
    return "".join(pieces)


def _apostrophe_rank(before: str) -> int:
    """Ranks the text before an apostrophe: best a one-letter word, then a longer word, last a space."""
    if before[-1:] in ("", " "):
        return 2
    return 0 if before[-2:-1] in ("", " ") else 1


def _without_tags(block: str) -> str:
    if block.count("<") <= _MAX_PARSED_TAGS and len(block) <= _MAX_PARSED_CHARACTERS:
        pieces: list[str] = []
        _append_text(mwparserfromhell.parse(block, skip_style_tags=True), pieces)
        block = "".join(pieces)
    return _INLINE_TAG.sub("", block)


def _append_text(code: Wikicode, pieces: list[str]) -> None:
    for node in code.nodes:
        if not isinstance(node, Tag):
            pieces.append(str(node))
            continue
        name = str(node.tag).strip().lower()
        if name not in _KNOWN_TAGS:
            pieces.append(str(node))
        elif name in _DROPPED_TAGS or any(_HIDDEN.search(str(attribute)) for attribute in node.attributes):
            pieces.append(HOLE)
        elif node.contents:
            if name == "sup" and pieces and pieces[-1][-1:].isdigit() and str(node.contents)[:1] in "0123456789-−+":
                pieces.append("^")  # 10<sup>6</sup> is not 106
            _append_text(node.contents, pieces)


def _without_holes(block: str) -> str:
    """Cleans up around dropped text: empty brackets and quotes, doubled spaces and commas."""
    block = _close_holes(block)
    for _ in range(2):  # brackets within brackets
        block = _EMPTY_PAIR.sub(HOLE, block)
    if HOLE in block:
        block = _close_holes(block).replace(HOLE, "")
    return _DOUBLE_PERIOD.sub(".", block) if ".." in block else block


def _close_holes(block: str) -> str:
    first, *rest = block.split(HOLE)
    pieces = [first.rstrip(_SEPARATORS)]
    gap = first[len(pieces[0]) :]
    for part in rest:
        text = part.lstrip(_SEPARATORS)
        gap += part[: len(part) - len(text)]
        if text:  # otherwise another hole follows
            kept = text.rstrip(_SEPARATORS)
            pieces += [_between(pieces[-1][-1:], gap, text[:1]), kept]
            gap = text[len(kept) :]
    # Separators at the end are text unless there is a hole among them.
    return "".join(pieces) + (gap if rest and rest[-1].strip(_SEPARATORS) else "")


def _between(before: str, gap: str, after: str) -> str:
    """Returns the replacement for dropped text and the separators around it.

    `before` and `after` are the characters around it (`before` is empty at the beginning of a paragraph), `gap` the
    spaces and separators on both sides.
    """
    opened, closed = before in _OPENING, after in _CLOSING
    if (before and opened and closed) or (before == after == '"' and not gap):
        return HOLE  # nothing is left between the pair
    if opened or closed or after in _ENDS:
        return ""
    separators = gap.translate(_NO_SPACES)
    spaced = len(separators) < len(gap)
    if separators[-1:] in "-–—" and separators:
        return gap if len(separators) == 1 else f" {separators[-1]} " if spaced else separators[-1]
    separator = separators[-1:]
    return separator + (" " if spaced and (not separator or separator not in _WIDE_SEPARATORS) else "")
