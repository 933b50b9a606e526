"""Tests the share of real pages' prose that is read, and its computation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from beam_pipelines.sources.wikipedia.names import WikiNames
from benchmarks import wikitext

DUMP = """<mediawiki xml:lang="it"><siteinfo><dbname>itwiki</dbname></siteinfo>
<page><title>A</title><ns>0</ns><id>1</id><revision><text>Uno {{cn|due}} tre.

* voce
{{S|quattro}}</text></revision></page>
<page><title>B</title><ns>1</ns><id>2</id><revision><text>Cinque.</text></revision></page>
</mediawiki>
"""


@pytest.mark.integration
def test_the_prose_of_real_dumps_is_read(shared_data: Path) -> None:
    """Reads a few pages of every dump, since mwparserfromhell takes a minute for all of them."""
    words = 0
    for dump in sorted((shared_data / "raw/dumps").iterdir()):
        pages = list(wikitext.articles_of(dump))
        found = wikitext.measure_pages(pages[:: 1 + len(pages) // 4], wikitext.names_of(dump))
        assert found.share >= 0.985, dump.name
        assert found.markup == 0, dump.name
        words += found.words
    assert words > 20_000


def test_the_prose_of_real_pages_is_read(shared_data: Path) -> None:
    pages = list(wikitext.pages_of_folder(shared_data / "raw/wikitext_pages"))[::6]
    found = wikitext.measure_pages(pages, WikiNames(language="en"))
    assert found.share >= 0.985
    assert found.markup == 0


def test_missing_words_and_remaining_markup_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikitext, "passages", lambda *_: ["One [[two]]", "<br/>six"])
    page = (
        "One '''two''' [[three|four]]<ref>x</ref>.\n\n* item\n== Head ==\n{{t|five}}\n{|\n| cell\n|}\n[[File:a.png|b]]"
    )
    found = wikitext.measure_pages([page, "One."], WikiNames())
    assert found == wikitext.Coverage(pages=2, reference_words=4, common_words=3, words=8, markup=6)
    assert found.share == 0.75


def test_the_program_measures_every_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "a.xml").write_text(DUMP)
    arguments = ["wikitext", f"--dumps={dumps}", f"--pages={tmp_path / 'none'}", f"--output={tmp_path}"]
    monkeypatch.setattr(sys, "argv", arguments)
    wikitext.main()
    row = json.loads((tmp_path / "wikitext_coverage.json").read_text())["results"]["a.xml"]
    assert row == {
        "language": "it",
        "share": 1.0,
        "pages": 1,
        "reference_words": 2,
        "common_words": 2,
        "words": 3,
        "markup": 0,
    }
    assert "a.xml" in capsys.readouterr().out
