"""Replaces templates in running text by their words; all other templates are dropped.

A template is a program on its wiki, which is not part of a dump of articles. The package `templates` has simplified
forms of known templates by language. For an unknown template the first unnamed argument is kept if it reads like a part
of the surrounding sentence: a word or phrase marked up by editors. Infoboxes, navigation, stubs and other templates on
separate lines leave a hole, as do references and notes.
"""

from __future__ import annotations

import re

from beam_pipelines.sources.wikipedia.templates import TemplateTables
from beam_pipelines.sources.wikipedia.templates.renderers import parse_arguments, show_nothing

# Marks dropped text, so that brackets and spaces around it can be cleaned up. It is not an XML character; neither is
# NUL, but NUL ends the text for mwparserfromhell.
HOLE = "\x01"
# Maximum nesting depth; MediaWiki also stops at 40 levels of templates.
_MAX_DEPTH = 40

_TEMPLATE = re.compile(r"\{\{((?:[^{}\n]++|\n(?!==)|\{(?!\{)|\}(?!\}))*+)\}\}")
# Longer templates are dropped; templates in sentences and quotations are shorter.
_MAX_CHARACTERS = 20_000
# Characters of context on both sides of an unknown template, within its line.
_CONTEXT = 80

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CHINESE_OR_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
# Links with a prefix: categories, pictures and other languages, which often share a line with templates.
_PREFIXED_LINK = re.compile(r"\[\[[^\[\]|]*:[^\[\]]*\]*")
# Other templates, including those that begin or end outside of the context.
_TEMPLATES_BEFORE = re.compile(r"^[^{}]*\}\}|\{\{[^{}]*\}\}")
_TEMPLATES_AFTER = re.compile(r"\{\{[^{}]*(?:\}\}|$)")
# Characters directly before words of a sentence: blanks, opening brackets and quotes, apostrophes, dashes, and marks of
# HTML and arguments. Notes and references follow their word or punctuation without a space.
_BEFORE_WORDS = frozenset(" \t\xa0\u3000([（«„“‘’\"'「『|=>/-–—")
# Arguments that are not words: file names, addresses, colours, phonetic transcriptions, short codes (ITA, DE-BE), and
# keys with a value (type:city).
_NO_PROSE = re.compile(
    r"\.[A-Za-z]\w{2,3}$|://|^#|[ˈˌː]|^[/\[](?!\[)|^[A-Z]{1,3}\d*$|^[A-Z]{2,3}-[A-Z]{2,3}$|^\w{1,20}:\S"
)


def replace_templates(text: str, tables: TemplateTables) -> str:
    """Replaces the templates of a page by their words, innermost first."""

    def replacement(match: re.Match[str]) -> str:
        return template_text(match[1], tables, match.string, match.span())

    for _ in range(_MAX_DEPTH):
        text, count = _TEMPLATE.subn(replacement, text)
        if not count:
            break
    return text


def template_text(content: str, tables: TemplateTables, page: str = "", span: tuple[int, int] = (0, 0)) -> str:
    """Returns the words of a template as wikitext with unchanged links, or `HOLE` if the template is dropped.

    `content` is the text between `{{` and `}}`, without other templates; `span` is the place of the template in `page`.
    """
    title, bar, rest = content.partition("|")
    title = " ".join(title.replace("_", " ").split())
    if title[:10].lower() == "formatnum:":
        return title[10:].strip() or HOLE
    render = tables.find(title)
    if render is show_nothing or len(content) > _MAX_CHARACTERS:
        return HOLE
    if render:
        return render(title, parse_arguments(rest)) or HOLE
    # Templates with several lines are never part of a sentence.
    if not bar or "\n" in content or not _is_in_sentence(page, span, content):
        return HOLE
    text = parse_arguments(rest).get("1", "")
    return text if _WORD.search(text) and not _NO_PROSE.search(text) else HOLE


def _is_in_sentence(page: str, span: tuple[int, int], content: str) -> bool:
    """Returns True if a template is among words, at a position where a word is possible."""
    begin, end = span
    before = page[max(0, begin - _CONTEXT) : begin].rpartition("\n")[2]
    after = page[end : end + _CONTEXT].partition("\n")[0]
    if _is_attached(before, content) or (before.endswith(("(", "（")) and after.startswith((")", "）"))):
        return False
    if _LETTER.search(_PREFIXED_LINK.sub("", _TEMPLATES_BEFORE.sub("", before))):
        return True
    # At the beginning of a line most templates are notices, except those followed by the rest of a sentence.
    after = _PREFIXED_LINK.sub("", _TEMPLATES_AFTER.sub("", after)).lstrip()
    return (after[:1].islower() or after.startswith(tuple(",;:.)"))) and _LETTER.search(after) is not None


def _is_attached(before: str, content: str) -> bool:
    """Returns True if a template follows a word or punctuation without a space, as notes do."""
    word = before.rstrip("'") if before.endswith("''") else before
    if not word or word[-1] in _BEFORE_WORDS:
        return False
    # Chinese and Japanese have no spaces; their notes have names in Latin letters.
    return not (_CHINESE_OR_JAPANESE.search(content.partition("|")[2]) and _CHINESE_OR_JAPANESE.match(word[-1]))
