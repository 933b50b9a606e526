"""Reference passages from a parser of the whole page: slow, and independent of the production code.

The text of constructs (links, templates, formulas) and the processing within a line are shared with production.
"""

from __future__ import annotations

import re

import mwparserfromhell
from mwparserfromhell.nodes import Argument, Comment, ExternalLink, Heading, Tag, Template, Wikilink
from mwparserfromhell.wikicode import Wikicode

from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.templates import tables_of
from beam_pipelines.sources.wikipedia.wikitext_inline import plain_text
from beam_pipelines.sources.wikipedia.wikitext_templates import HOLE, template_text

DROPPED = re.compile(
    "ref|references|math|chem|ce|pre|source|syntaxhighlight|gallery|timeline|score|hiero|imagemap|graph|mapframe|table|"
    "maplink|templatedata|templatestyles|inputbox|categorytree|dynamicpagelist|includeonly|section"
)
BLOCKS = frozenset(("p", "div", "center", "blockquote", "poem", "ul", "ol", "dl", "hr"))
INLINE = re.compile("abbr|b|big|cite|code|em|font|i|kbd|small|span|strong|sub|sup|tt|u|var|noinclude")
DIGITS = tuple("0123456789-−+")
ITEMS = frozenset(("li", "dt", "dd", "tr", "td", "th", "caption", "h1", "h2", "h3", "h4", "h5", "h6"))


def reference_passages(wikitext: str, names: WikiNames) -> list[str]:
    text = _shown(mwparserfromhell.parse(wikitext.replace("\r\n", "\n"), skip_style_tags=True), names)
    text = re.sub(r"__[^\Wa-z\d_]{3,30}__", "", text)
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if not line.strip(f" \t{HOLE}") or _is_no_passage(line):
            blocks.append([])
        else:
            blocks[-1].append(re.sub("^-{4,}", "", line))
    found = [plain_text("\n".join(block)) for block in blocks if block]
    return [paragraph for paragraph in found if re.search(r"[^\W\d_]", paragraph) and "{|" not in paragraph]


def _is_no_passage(line: str) -> bool:
    start = line.lstrip(f" \t{HOLE}")
    return (
        start.startswith(("*", "#", ":", ";", "|", "{|"))
        or (start.startswith("!") and "!!" in start)
        or (line[0] in " \t" and len(line) < 61)
        or re.fullmatch(rf"[ \t]*=.*=[ \t{HOLE}]*|'''[^'\n]+'''[ \t:.{HOLE}]*", line) is not None
    )


def _shown(code: Wikicode, names: WikiNames) -> str:
    text = ""
    nodes = list(code.nodes)
    for number, node in enumerate(nodes):
        if isinstance(node, Template):
            shown = _template(node, names, text, "".join(map(str, nodes[number + 1 : number + 4])))
        else:
            shown = _node(node, names)
        if isinstance(node, Tag) and str(node.tag).lower() == "sup" and text[-1:].isdigit() and shown[:1] in DIGITS:
            text += "^"
        text += shown
    return text


def _node(node: object, names: WikiNames) -> str:
    if isinstance(node, Wikilink):
        return _link(_shown(node.title, names), None if node.text is None else _shown(node.text, names), names)
    if isinstance(node, ExternalLink):
        return (_shown(node.title, names) if node.title else HOLE) if node.brackets else str(node)
    if isinstance(node, Tag):
        return _tag(node, names)
    if isinstance(node, Comment):
        return ""
    if isinstance(node, Argument):
        return HOLE
    return "\n== heading ==\n" if isinstance(node, Heading) else str(node)


def _template(node: Template, names: WikiNames, before: str, after: str) -> str:
    values = "".join(
        "|" + (_shown(parameter.name, names) + "=" if parameter.showkey else "") + _shown(parameter.value, names)
        for parameter in node.params
    )
    content, span = _shown(node.name, names) + values, (len(before), len(before))
    return template_text(content, tables_of(names.language), before + after, span)


def _link(target: str, label: str | None, names: WikiNames) -> str:
    prefix, colon, rest = target.partition(":")
    if colon and prefix and (names.is_left_out(prefix) or re.search(r"\.(svg|png|jpe?g|gif|ogg)\s*$", rest, re.I)):
        return HOLE
    return (label or "").split("|")[-1].strip(" ") or target.strip().lstrip(":#") or HOLE


def _tag(node: Tag, names: WikiNames) -> str:
    name = str(node.tag).lower().strip()
    if node.wiki_markup and name in ("li", "dt", "dd", "hr"):
        return str(node.wiki_markup)
    if name in ("math", "chem", "ce") and re.fullmatch(r"(?:[^\W_]|[ +=.,()/±×·−-]){1,40}", str(node.contents)):
        return str(node.contents)
    if DROPPED.fullmatch(name):
        return HOLE
    if name == "br":
        return " "
    if name == "nowiki":
        content = str(node.contents or "")
        return HOLE if set(content) & set("[]{}|<>\n") else "".join(f"&#{ord(c)};" for c in content)
    content = "" if node.contents is None else _shown(node.contents, names)
    if name in BLOCKS:
        return f"\n\n{content}\n\n"
    if name in ITEMS:
        return f"\n*{content}\n"
    attributes = "".join(map(str, node.attributes))
    if name in ("del", "s", "strike", "style") or re.search(r"display:\s*none", attributes):
        return HOLE
    return content if INLINE.fullmatch(name) else str(node)
