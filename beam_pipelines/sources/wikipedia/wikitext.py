"""Extracts the prose of a wikitext page: passages without lists, tables, headings, references, boxes and pictures.

Markup around passages is removed first by linear-time regular expressions, innermost first, each over the whole page.
A parser is slower by two orders of magnitude, and its time is unbounded on hostile pages. `wikitext_inline` then
converts each remaining paragraph to plain text. An unclosed construct, or one not closed before the next heading,
removes only the rest of its line; an unclosed table removes its rows.

Constructs: https://www.mediawiki.org/wiki/Help:Formatting and the pages linked there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.templates import TemplateTables, tables_of
from beam_pipelines.sources.wikipedia.wikitext_inline import plain_text, without_links
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE, replace_templates

# Maximum nesting depth of tables.
_MAX_DEPTH = 40

# Elements whose content is not wikitext, or never a passage.
_VERBATIM_NAMES = (
    "ref|references|nowiki|math|chem|ce|pre|source|syntaxhighlight|gallery|timeline|score|hiero|imagemap|graph|mapframe|"
    "maplink|templatedata|templatestyles|inputbox|categorytree|dynamicpagelist|includeonly|section"
)
_VERBATIM = re.compile(rf"<!--|<({_VERBATIM_NAMES})(?![\w-])([^<>]*)>", re.I)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.I) for name in _VERBATIM_NAMES.split("|")}
_REFERENCE = re.compile(r"<(?:(/)ref\s*|ref(?![\w-])([^<>]*))>", re.I)
# A formula that is also plain text: no commands, indices or quotes.
_PLAIN_FORMULA = re.compile(r"(?:[^\W_]|[ +=.,()/±×·−-]){1,40}")

_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")
_UNCLOSED_TEMPLATE = re.compile(r"\{\{[^\n]*|\}\}+")
# Chinese: -{zh-hans:计算机;zh-hant:電腦}- shows one of the variants; flags (-{T|...}-) and definitions show nothing.
_VARIANT = re.compile(r"-\{([^{}]*)\}-")

_TABLE_MARK = re.compile(r"^[ \t:*#\x01]*+(?:(\{\|)|(\|\}(?!\}))|==.*==[ \t]*$)", re.M)
_TABLE_ROW = re.compile(r"^[ \t:*#\x01]*+[|!].*$", re.M)
_LINE_END = re.compile(r"\n")
_PARAGRAPH_END = re.compile(r"\n[ \t\x01]*+(?=\n)")
_HTML_TABLE = re.compile(r"<table(?![\w-])(?:[^<]++|<(?!/?table(?![\w-])))*+</table\s*>", re.I)
# Cells of an unclosed table; an unclosed cell ends with its paragraph.
_CELL = re.compile(r"<t[dh](?![\w-])(?:[^<]++|<(?!/?t[dhr](?![\w-])))*+</t[dh]\s*>", re.I)
_UNCLOSED_CELL = re.compile(
    r"<t[dh](?![\w-])(?:[^<\n]++|<(?!/?t[dhr](?![\w-])|/?table(?![\w-]))|\n(?![ \t\x01]*\n|==))*+", re.I
)
_ITEM_NAMES = "li|dt|dd|tr|td|th|caption|h[1-6]"
_ITEM_TAG = re.compile(rf"<(?:{_ITEM_NAMES})(?![\w-])[^<>]*>", re.I)
_BLOCK_TAG = re.compile(
    rf"</?(?:p|div|center|blockquote|poem|hr|ul|ol|dl|table|tbody|{_ITEM_NAMES})(?![\w-])[^<>]*>[ \t]*", re.I
)
_LINE_BREAK = re.compile(r"<br(?![\w-])[^<>]*>|</br\s*>", re.I)
_MAGIC_WORD = re.compile(r"__[^\Wa-z\d_]{3,30}__")

# Lines of lists, tables and headings, and whole lines in bold, which serve as headings. A line that begins with a space
# is preformatted: code and verse have short lines, and long ones are paragraphs with a space by mistake.
_LINE_MARKUP = re.compile(
    r"^(?:[ \t\x01]*+(?:[*#:;|]|\{\||!.*!!).*|[ \t](?!.{60}).*|[ \t]*+=.*=[ \t\x01]*|'''[^'\n]++'''[ \t:.\x01]*)$", re.M
)
_RULE = re.compile(r"^-{4,}[ \t]*", re.M)
_BREAK = re.compile(r"\n[ \t\x01]*(?:\n[ \t\x01]*)+")
_LETTER = re.compile(r"[^\W\d_]")
# Table marks in the middle of a line do not form a table; a paragraph with such marks is not a passage either.
_TABLE_RESIDUE = re.compile(r"\{\||\|\}")


def passages(wikitext: str, names: WikiNames) -> list[str]:
    """Returns the passages of a page without markup, one string per paragraph."""
    text = _without_verbatim(wikitext.replace(HOLE, "").replace("\r\n", "\n"))
    text = _without_templates(text, tables_of(names.language))
    if "{|" in text:
        text = _without_wiki_tables(text)
    # Links are replaced before lines, because captions of pictures may contain lists and centred lines.
    text = without_links(text, names)
    if "<" in text:
        text = _without_html_blocks(text)
    if "__" in text:
        text = _MAGIC_WORD.sub("", text)
    return list(_paragraphs(_LINE_MARKUP.sub("", _RULE.sub("\n", text))))


def _paragraphs(text: str) -> Iterator[str]:
    for block in _BREAK.split(text):
        paragraph = plain_text(block)
        if _LETTER.search(paragraph) and not _TABLE_RESIDUE.search(paragraph):
            yield paragraph


def _without_verbatim(text: str) -> str:
    """Removes comments, references and other elements that are not wikitext, from left to right."""
    pieces = []
    position = 0
    unclosed: set[str] = set()
    while opening := _VERBATIM.search(text, position):
        pieces.append(text[position : opening.start()])
        if opening[1] is None:
            shown, position = "", _end_of_comment(text, opening, unclosed)
        else:
            shown, position = _element(text, opening, unclosed)
        pieces.append(shown)
    pieces.append(text[position:])
    return "".join(pieces)


def _end_of_comment(text: str, opening: re.Match[str], unclosed: set[str]) -> int:
    end = -1 if "!--" in unclosed else text.find("-->", opening.end())
    if end < 0:
        unclosed.add("!--")
        return opening.end()
    end += len("-->")
    alone = text[end : end + 1] == "\n" and (opening.start() == 0 or text[opening.start() - 1] == "\n")
    return end + 1 if alone else end


def _element(text: str, opening: re.Match[str], unclosed: set[str]) -> tuple[str, int]:
    """Returns the text shown by an element, and the position after it."""
    name = opening[1].lower()
    begin = opening.end()
    if opening[2].endswith("/"):
        return ("" if name == "nowiki" else HOLE), begin
    if name == "ref":
        return HOLE, _end_of_reference(text, begin, unclosed)
    closing = None if name in unclosed else _CLOSING[name].search(text, begin)
    if closing is None:
        unclosed.add(name)
        return HOLE, begin
    content = text[begin : closing.start()]
    if name == "nowiki":
        return _literal(content), closing.end()
    if name in ("math", "chem", "ce") and _PLAIN_FORMULA.fullmatch(content):
        return content, closing.end()
    return HOLE, closing.end()


def _end_of_reference(text: str, begin: int, unclosed: set[str]) -> int:
    """Returns the end of a reference. References do not nest, so one that begins inside another leaves it unclosed."""
    position = begin
    while "ref" not in unclosed:
        tag = _REFERENCE.search(text, position)
        if tag is None:
            unclosed.add("ref")
        elif tag[1]:
            return tag.end()
        elif tag[2].endswith("/"):
            position = tag.end()
        else:
            break
    end = text.find("\n", begin)
    return len(text) if end < 0 else end


def _literal(content: str) -> str:
    """Escapes text so that it is not read as markup; text about markup (`[[`, `{|`) is dropped."""
    if any(character in "[]{}|<>\n" for character in content):
        return HOLE
    return "".join(c if c.isalnum() or c in " &#;" else f"&#{ord(c)};" for c in content)


def _without_templates(text: str, tables: TemplateTables) -> str:
    """Replaces templates by their text, innermost first."""
    if "-{" in text:
        text = _VARIANT.sub(_variant, text)
    if "{{" not in text:
        return text.replace("}}", "")
    if "{{{" in text:
        text = _PARAMETER.sub("", text)
    return _UNCLOSED_TEMPLATE.sub(HOLE, replace_templates(text, tables))


def _variant(match: re.Match[str]) -> str:
    flag, bar, rules = match[1].rpartition("|")
    if bar and flag.strip().upper() not in ("", "R", "N"):
        return HOLE if set(flag.upper()) & set("THD-") else rules
    first, _, _ = rules.partition(";")
    variant, colon, shown = first.partition(":")
    return shown.strip() if colon and variant.strip().startswith(("zh", "sr", "kk", "ku", "uz")) else rules


def _without_wiki_tables(text: str) -> str:
    """Removes tables with their content; of a table not closed before the next heading only the rows."""
    begins: list[int] = []
    cuts: list[tuple[int, int]] = []
    for mark in _TABLE_MARK.finditer(text):
        if mark[1]:
            begins.append(mark.start())
        elif not mark[2]:
            _cut_rows(text, begins, mark.start(), cuts)
            begins.clear()
        elif begins:
            begin = begins.pop()
            _pop_from(cuts, begin)
            cuts.append((begin, mark.end()))
    _cut_rows(text, begins, len(text), cuts)
    pieces = []
    position = 0
    for begin, end in cuts:
        pieces.append(text[position:begin])
        position = end
    pieces.append(text[position:])
    return HOLE.join(pieces)


def _cut_rows(text: str, begins: list[int], limit: int, cuts: list[tuple[int, int]]) -> None:
    """Adds a cut for unclosed tables, if there are any, up to the end of the paragraph with their last row.

    `begins` are the positions of the tables, and `limit` is that of the next heading, or the end of the text. The rows
    of closed tables, whose `cuts` are in order, are excluded.
    """
    if not begins:
        return
    inner = _pop_from(cuts, begins[0])
    last = position = begins[0]
    for begin, end in [*inner, (limit, limit)]:
        for row in _TABLE_ROW.finditer(text, position, begin):
            last = row.end()
        position = end
    mark = (_LINE_END if last == begins[0] else _PARAGRAPH_END).search(text, last, limit)
    end = mark.start() if mark else limit - text.endswith("\n", 0, limit)
    cuts.append((begins[0], end))
    cuts += [cut for cut in inner if cut[0] >= end]


def _pop_from(cuts: list[tuple[int, int]], begin: int) -> list[tuple[int, int]]:
    """Removes the cuts that begin at or after `begin`, and returns them in order."""
    popped = []
    while cuts and cuts[-1][0] >= begin:
        popped.append(cuts.pop())
    return popped[::-1]


def _without_html_blocks(text: str) -> str:
    """Removes HTML tables, converts list items to list lines, and breaks lines at the edges of other blocks."""
    for _ in range(_MAX_DEPTH):
        text, count = _HTML_TABLE.subn(HOLE, text)
        if not count:
            break
    text = _UNCLOSED_CELL.sub(HOLE, _CELL.sub(HOLE, text))
    text = _ITEM_TAG.sub("\n*", text)
    text = _BLOCK_TAG.sub("\n\n", text)
    return _LINE_BREAK.sub(" ", text)
