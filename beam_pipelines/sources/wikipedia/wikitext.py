"""The prose of a page of wikitext: its passages, without lists, tables, headings, references, boxes and pictures.

What surrounds passages is taken away first, by expressions that match in linear time, innermost first, each over the
whole page; the parser is slower by two orders of magnitude, and its time is not bounded on hostile pages.
`wikitext_inline` then makes plain text of each paragraph that is left. A construct that is never closed, or not before
the next heading, takes no more with it than the rest of its line; a table takes its rows.

Constructs: https://www.mediawiki.org/wiki/Help:Formatting and the pages it leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.templates import TemplateTables, tables_of
from beam_pipelines.sources.wikipedia.wikitext_inline import plain_text, without_links
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE, replace_templates

# Levels of nesting of tables that are looked into.
_MAX_DEPTH = 40

# Elements whose content is no wikitext, or never a passage.
_VERBATIM_NAMES = (
    "ref|references|nowiki|math|chem|ce|pre|source|syntaxhighlight|gallery|timeline|score|hiero|imagemap|graph|mapframe|"
    "maplink|templatedata|templatestyles|inputbox|categorytree|dynamicpagelist|includeonly|section"
)
_VERBATIM = re.compile(rf"<!--|<({_VERBATIM_NAMES})(?![\w-])([^<>]*)>", re.I)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.I) for name in _VERBATIM_NAMES.split("|")}
_REFERENCE = re.compile(r"<(?:(/)ref\s*|ref(?![\w-])([^<>]*))>", re.I)
# A formula that reads the same as text: no commands, indices or quotes.
_PLAIN_FORMULA = re.compile(r"(?:[^\W_]|[ +=.,()/±×·−-]){1,40}")

_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")
_UNCLOSED_TEMPLATE = re.compile(r"\{\{[^\n]*|\}\}+")
# Chinese: -{zh-hans:计算机;zh-hant:電腦}- shows one of them; flags (-{T|...}-) and definitions show none.
_VARIANT = re.compile(r"-\{([^{}]*)\}-")

_TABLE_MARK = re.compile(r"^[ \t:*#\x01]*+(?:(\{\|)|(\|\}(?!\}))|==.*==[ \t]*$)", re.M)
_TABLE_ROW = re.compile(r"^[ \t:*#\x01]*+[|!].*$", re.M)
_LINE_END = re.compile(r"\n")
_PARAGRAPH_END = re.compile(r"\n[ \t\x01]*+(?=\n)")
_HTML_TABLE = re.compile(r"<table(?![\w-])(?:[^<]++|<(?!/?table(?![\w-])))*+</table\s*>", re.I)
# Cells of a table that is not closed; one that is not closed itself ends with its paragraph.
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

# Lines of lists, tables and headings, and whole lines in bold, which stand for headings. A line that begins with a
# space is preformatted; code and verse have short lines, long ones are paragraphs begun with a space by mistake.
_LINE_MARKUP = re.compile(
    r"^(?:[ \t\x01]*+(?:[*#:;|]|\{\||!.*!!).*|[ \t](?!.{60}).*|[ \t]*+=.*=[ \t\x01]*|'''[^'\n]++'''[ \t:.\x01]*)$", re.M
)
_RULE = re.compile(r"^-{4,}[ \t]*", re.M)
_BREAK = re.compile(r"\n[ \t\x01]*(?:\n[ \t\x01]*)+")
_LETTER = re.compile(r"[^\W\d_]")
# Tables in the middle of a line are none; a paragraph that holds their marks is no passage either.
_TABLE_RESIDUE = re.compile(r"\{\||\|\}")


def passages(wikitext: str, names: WikiNames) -> list[str]:
    """Returns the passages of a page, one paragraph a string, without markup.

    Args:
        wikitext: the source of the page.
        names: the language of its wiki, and its names of files and categories.
    """
    text = _without_verbatim(wikitext.replace(HOLE, "").replace("\r\n", "\n"))
    text = _without_templates(text, tables_of(names.language))
    if "{|" in text:
        text = _without_wiki_tables(text)
    # Links come before lines: the captions of pictures may hold lists and centred lines.
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
    """Takes away comments, references and the other elements that are no wikitext, from left to right."""
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
    """Returns what an element shows, and where the text goes on."""
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
    """References do not nest: one that begins inside another means that the first was never closed."""
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
    """Shields text from being read as markup; text about markup (`[[`, `{|`) is dropped."""
    if any(character in "[]{}|<>\n" for character in content):
        return HOLE
    return "".join(c if c.isalnum() or c in " &#;" else f"&#{ord(c)};" for c in content)


def _without_templates(text: str, tables: TemplateTables) -> str:
    """Replaces templates by the words they show, innermost first."""
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
    """Cuts out tables with all they hold; of one that is not closed before the next heading, its rows."""
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
    """Adds a cut for tables that are not closed, up to the end of the paragraph that holds their last row.

    Args:
        text: of the page.
        begins: where the tables begin, none or more.
        limit: where the next heading begins, or the text ends.
        cuts: those of closed tables, in order. Their rows are none of the others.
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
    """Removes the cuts that begin at `begin` or later, and returns them in order."""
    popped = []
    while cuts and cuts[-1][0] >= begin:
        popped.append(cuts.pop())
    return popped[::-1]


def _without_html_blocks(text: str) -> str:
    """Drops HTML tables, makes list items lines of lists, and breaks lines where other blocks begin and end."""
    for _ in range(_MAX_DEPTH):
        text, count = _HTML_TABLE.subn(HOLE, text)
        if not count:
            break
    text = _UNCLOSED_CELL.sub(HOLE, _CELL.sub(HOLE, text))
    text = _ITEM_TAG.sub("\n*", text)
    text = _BLOCK_TAG.sub("\n\n", text)
    return _LINE_BREAK.sub(" ", text)
