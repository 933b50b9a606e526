"""Passages of real pages in nine languages: no markup is left, and they equal those of a full parser."""

from __future__ import annotations

import bz2
import dataclasses
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines.sources.wikipedia.names import WikiNames
from beam_pipelines.sources.wikipedia.wikitext import passages
from tests.support.beam_pipelines.wikitext_reference import reference_passages

NAMES = WikiNames().with_local([(6, "Fails"), (14, "Kategoreja")])
DUMPS = ["dbpedia_minidump_*", "enwiki-latest*", "ltgwiki*", "tinywiki*"]
# The file has lost its line breaks, and therefore its structure.
UNREADABLE = "raith_rovers.txt"
LEFTOVERS = {
    "marks": r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\|\||'''|==\s*$|^\s*==|__[A-Z]+__",
    "tags": r"</?(ref|br|small|div|span|su[bp]|gallery|math|nowiki|table|t[rd]|blockquote|code|!--)\b",
    "entities": r"&(nbsp|amp|lt|gt|quot|[mn]dash|#\d+);",
    "pictures": r"\b(thumb|mini|vignette|upright|left|right)\||\b(File|Image|Datei|Fichier|Fails|ملف|चित्र|ファイル):",
    "categories": r"\b(Category|Kategorie|Catégorie|Kategoreja|تصنيف|श्रेणी|分类|分類):",
    "empty brackets": r"(?<!\w)[(（]\s*[)）]|[(（]\s*[,;:]",
    "spaces": r"  |^\s|\s$|\s[,](\s|$)|[(（]\s|\s[)）]|[^\S ]",
}


def names_of(title: str) -> WikiNames:
    """Returns the names of a page's wiki, with the language in its file name."""
    found = re.search(r"([a-z]{2,3})wiki-?", title.partition(":")[0])
    return dataclasses.replace(NAMES, language=found[1] if found else "en")


def pages_of_dumps(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob(f"raw/dumps/{pattern}")):
        content = path.read_bytes()
        content = bz2.decompress(content) if path.suffix == ".bz2" else content
        for found in re.findall(rb"<page>.*?</page>", content, re.S):
            page = ET.fromstring(found)
            if page.findtext("ns") == "0" and page.find("redirect") is None:
                yield f"{path.name}: {page.findtext('title')}", page.findtext("revision/text") or ""


def pages_of_files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("raw/wikitext_pages/*.txt")):
        text = path.read_bytes().decode()
        if path.name != UNREADABLE:
            # One page is an escaped excerpt of a dump.
            yield path.name, html.unescape(text) if "&lt;ref" in text else text


def real_pages(folder: Path, source: str) -> list[tuple[str, str]]:
    found = list(pages_of_files(folder) if source == "pages" else pages_of_dumps(folder, source))
    assert found
    return found


@pytest.mark.parametrize("source", [*DUMPS, "pages"])
def test_all_markup_is_removed(shared_data: Path, source: str) -> None:
    characters = kept = 0
    for title, wikitext in real_pages(shared_data, source):
        characters += len(wikitext)
        for passage in passages(wikitext, names_of(title)):
            kept += len(passage)
            for kind, pattern in LEFTOVERS.items():
                found = re.search(pattern, passage)
                assert not found, f"{kind} in {title}: {passage[max(0, found.start() - 60) : found.end() + 60]}"
    assert 0.3 < kept / characters < 0.6  # prose as a share of wikitext: 0.35 to 0.5 on all of these


@pytest.mark.parametrize(
    ("source", "every", "expected"),
    # Rare differences: unclosed HTML tables, comments that fill a line, links to categories.
    [("dbpedia_minidump_[!e]*", 1, 0.99), ("enwiki-latest*", 9, 0.99), ("ltgwiki*", 9, 0.98), ("pages", 9, 0.99)],
)
def test_passages_equal_those_of_a_full_parser(shared_data: Path, source: str, every: int, expected: float) -> None:
    same = total = 0
    for title, wikitext in real_pages(shared_data, source)[::every]:
        found, reference = passages(wikitext, names_of(title)), reference_passages(wikitext, names_of(title))
        same += len(set(found) & set(reference))
        total += len(set(found) | set(reference))
    assert total > 60
    assert same / total >= expected


def test_passages_begin_like_those_of_wikiextractor(shared_data: Path) -> None:
    """The first sentences of articles of one dump, if both have them (other versions of the same articles)."""
    extracted = (shared_data / "raw/wikiextractor/enwiki2018_wiki_00").read_text(encoding="utf-8")
    articles = dict(re.findall(r'<doc [^>]*title="([^"]*)">\n.*\n\n(.*)', extracted))
    compared = similar = 0
    for title, wikitext in real_pages(shared_data, "enwiki-latest*"):
        name = title.partition(": ")[2]
        if name in articles and (found := passages(wikitext, names_of(title))):
            compared += 1
            ours, theirs = set(found[0].lower().split()), set(articles[name].lower().split())
            similar += len(ours & theirs) / len(ours | theirs) > 0.4
    assert compared > 5
    assert similar / compared > 0.6
