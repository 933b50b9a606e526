"""Output of wikiextractor: pages in text and JSON form, passages only, and faulty pages."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.sources.documents import MALFORMED, OVER_LONG, UNDECODABLE
from beam_pipelines.sources.wikiextractor import NO_PASSAGES, WikiExtractor, not_a_passage, passages, without_markup
from tests.support.beam_pipelines.source_samples import PACKERS, RAW, contents, needs_raw, read, texts

PASSAGE = "This passage has more than five words in it."
HEADERS = [
    '<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="{}">',
    '<doc id="12" url="?curid=12" title="{}">',
    '<doc id="12" revid="34" url="http://en.wikipedia.org/wiki?curid=12" title="{}" nonfiltered="1" dbindex="0">',
]


def page(title: str, *lines: str, header: str = HEADERS[0]) -> str:
    return "\n".join([header.format(title), title, "", *lines, "", "</doc>", ""])


def record(title: str, *lines: str) -> str:
    return json.dumps({"id": "12", "revid": "3", "url": "u", "title": title, "text": "\n".join(lines)}) + "\n"


def written(folder: Path, content: str | bytes, name: str = "wiki_00") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("header", HEADERS)
def test_pages_in_text_format(tmp_path: Path, suffix: str, header: str) -> None:
    titles = ["One", 'The "Heroes" (album)', "AT&amp;T"]
    content = "".join(page(title, PASSAGE, "", f"{PASSAGE} {title}", header=header) for title in titles)
    found = read(WikiExtractor, written(tmp_path, PACKERS[suffix](content.encode()), f"wiki_00{suffix}"))
    assert texts(found) == [(PASSAGE, f"{PASSAGE} {title.replace('&amp;', '&')}") for title in titles]
    assert [document.place for document in found] == [
        "line 1 (One)", 'line 9 (The "Heroes" (album))', "line 17 (AT&T)"
    ]  # fmt: skip


def test_a_header_without_title(tmp_path: Path) -> None:
    content = f'<doc id="2" url="http://it.wikipedia.org/wiki/Harmonium">\nHarmonium.\n{PASSAGE}\n</doc>\n'
    (found,) = read(WikiExtractor, written(tmp_path, content))
    assert found.paragraphs == (PASSAGE,)
    assert found.place == "line 1"


def test_both_formats_give_the_same_documents(tmp_path: Path) -> None:
    lines = [PASSAGE, "", "History.", f"{PASSAGE} It goes on."]
    as_text = read(WikiExtractor, written(tmp_path, page("One", *lines) + page("Two", *lines)))
    as_json = read(WikiExtractor, written(tmp_path, record("One", *lines) + record("Two", "Two", "", *lines)))
    assert contents(as_text) == contents(as_json) == [((PASSAGE, f"{PASSAGE} It goes on."), "")] * 2
    assert [document.place for document in as_json] == ["line 1 (One)", "line 2 (Two)"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Johnson &amp; Johnson &quot;x&quot; &#233;", 'Johnson & Johnson "x" é'),
        ("a &amp;lt;b&amp;gt; c &lt; d", "a c < d"),
        ('text.&lt;ref name="a"&gt;Smith&lt;/ref&gt; More&lt;ref name="b"/&gt;.', "text. More."),
        ("H<sub>2</sub>O<br/>and <nowiki>so</nowiki> on<!-- note -->", "H2O and so on"),
        ("if a < b and c > d", "if a < b and c > d"),
        ("[[Paris|the city]] and [[Rome]]", "the city and Rome"),
        ("a {{citation needed}} b __NOTOC__", "a b"),
        ("Shanghai () is; Bath (, ) is; Rome ( ; ) is; 北京（）是", "Shanghai is; Bath is; Rome is; 北京是"),
        ("Shanghai (china) is", "Shanghai (china) is"),
        ("__TOC__", ""),
        ("snake_case and __init__", "snake_case and __init__"),
    ],
)
def test_remaining_markup_is_removed(line: str, expected: str) -> None:
    assert without_markup(line) == expected


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (PASSAGE, ""),
        ("The village has five inhabitants.", ""),
        ("Results.", "short_or_header"),
        ("Early life and education.", "short_or_header"),
        ("Honorificabilitudinitatibus antidisestablishmentarianism stays.", ""),
        ("早年生活.", "short_or_header"),
        ("ベルリン州は、ドイツの首都である。", ""),
        ("กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากรมากที่สุดของประเทศไทย", ""),
        ("Section::::Results of the general elections of 1990.", "short_or_header"),
        ("## Results of the general elections of 1990.", "short_or_header"),
        ("#MeToo is a movement against abuse.", ""),
        ("BULLET::::- A list item of more than five words.", "list_item"),
        ("* A list item of more than five words.", "list_item"),
        ('•"Kyrie" and "Agnus Dei I" from Palestrina\'s Missa Brevis', "list_item"),
        ("- A list item of more than five words.", "list_item"),
        ("–30 degrees is what the thermometer showed.", ""),
        ("where formula_12 is the mass of the body.", "placeholder"),
        ("call codice_3, then go on with the rest.", "placeholder"),
        ("the formula is called formula_one by the drivers.", ""),
        ('! colspan="13" style="background:#DCDCDC" | Goalkeepers of the season', "left_over_markup"),
        ("!colspan=9 style=|Regular Season of the year before", "left_over_markup"),
        ("| a cell of a table | and another one", "left_over_markup"),
        ("a template that {{was not closed on this line", "left_over_markup"),
        ("a link that ends here]] and goes on.", "left_over_markup"),
        ("!Kung people live in the Kalahari.", ""),
        ("The sum a = b + c holds |x| times.", ""),
    ],
)
def test_lines_other_than_passages_are_removed(line: str, what: str) -> None:
    assert not_a_passage(line) == what


def test_left_out_lines_are_counted() -> None:
    dropped: Counter[str] = Counter()
    lines = ["", "A &amp; B", "", PASSAGE, "History.", "* A list item of more than five words.", "A & B"]
    assert passages(lines, "A & B", dropped) == [PASSAGE]
    assert dropped == {"title": 1, "short_or_header": 2, "list_item": 1}


@pytest.mark.parametrize("lines", [[], ["History."], ["Austin may refer to one of the following:"]])
@pytest.mark.parametrize("form", [page, record])
def test_pages_without_passages_are_not_faults(tmp_path: Path, form: object, lines: list[str]) -> None:
    found = read(WikiExtractor, written(tmp_path, form("One", *lines) + form("Two", PASSAGE)))  # type: ignore[operator]
    assert [document.reason for document in found] == [NO_PASSAGES, ""]


def test_invalid_pages_do_not_affect_others(tmp_path: Path) -> None:
    good = page("Good", PASSAGE).encode()
    nested = page("Outer", PASSAGE).replace("</doc>\n", "").encode()
    undecodable = page("Bad", PASSAGE, "caf\xe9 au lait").encode("latin-1")
    long = page("Long", PASSAGE, *["word " * 100] * 50).encode()
    stray = b"a stray line\nand another\n\n</doc>\n"
    broken = b'{"id": "1", "title": "x", "text": "cut\n{"id": 5, "title": 5, "text": "x"}\n'
    content = b"".join([stray, good, nested, good, undecodable, good, long, good, stray, broken, stray])
    found = read(WikiExtractor, written(tmp_path, content + record("J", PASSAGE).encode()), max_document_bytes=3000)
    assert [document.reason for document in found] == [
        MALFORMED, "", MALFORMED, "", UNDECODABLE, "", OVER_LONG, "", MALFORMED, MALFORMED, MALFORMED, MALFORMED, ""
    ]  # fmt: skip
    assert {document.paragraphs for document in found if not document.reason} == {(PASSAGE,)}
    assert found[0].paragraphs == ("outside of a page: a stray line",)
    assert found[2].place == "line 11 (Outer)"
    bad_line = content[: content.index(b"caf\xe9")].count(b"\n") + 1
    assert (found[4].place, found[4].paragraphs) == (f"line {bad_line}", ("caf\ufffd au lait",))
    assert found[6].place.endswith("(Long)")
    assert found[9].paragraphs[0].startswith("no JSON: ")
    assert found[10].paragraphs[0].startswith('the field "title" holds no string but a number: ')
    assert all(len(" ".join(document.paragraphs)) <= 200 for document in found)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_file_that_ends_within_a_page_is_an_error(tmp_path: Path, kept: float) -> None:
    content = page("One", PASSAGE) + page("Two", *[PASSAGE] * 20)
    path = written(tmp_path, content[: int(kept * len(content))])
    with pytest.raises(InputError, match=r"wiki_00: truncated: line 7 \(Two\) begins a page that does not end"):
        read(WikiExtractor, path)


def test_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    path = written(tmp_path, record("a\ud83d", PASSAGE) + record("b", f"{PASSAGE}\ud83d") + record("c", PASSAGE))
    found = read(WikiExtractor, path)
    assert [document.reason for document in found] == ["", UNDECODABLE, ""]
    assert found[0].place == "line 1 (a?)"
    assert found[1].paragraphs == (f"{PASSAGE}?",)


def test_page_of_the_maximum_length_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, record("One", "word " * 99 + "word"))
    assert [read(WikiExtractor, path, max_document_bytes=size)[0].reason for size in (499, 498)] == ["", OVER_LONG]


words = st.lists(st.sampled_from(["one", "zwei", "trois", "четыре", "five."]), min_size=5, max_size=9).map(" ".join)


@given(st.lists(st.tuples(st.sampled_from(["A", "B c", "Ä"]), st.lists(words, max_size=4)), max_size=6))
@settings(deadline=None, max_examples=100)
def test_any_pages_round_trip(tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[str, list[str]]]) -> None:
    folder = tmp_path_factory.getbasetemp()
    expected = [tuple(lines) if lines else NO_PASSAGES for _, lines in wanted]
    for form in (page, record):
        found = read(WikiExtractor, written(folder, "".join(form(title, *lines) for title, lines in wanted)))
        assert [document.reason or document.paragraphs for document in found] == expected


@needs_raw
@pytest.mark.parametrize(
    ("name", "pages", "without"),
    [("enwiki2014_wiki_00", 282, 17), ("enwiki2018_wiki_00", 37, 1), ("enwiki2021_nourl_wiki_00", 1530, 938),
     ("enwiki2021_wiki_01", 42, 1)],
)  # fmt: skip
def test_real_files(name: str, pages: int, without: int) -> None:
    path = RAW / "wikiextractor" / name
    found = read(WikiExtractor, path)
    assert Counter(document.reason for document in found) == {"": pages - without, NO_PASSAGES: without}
    content = path.read_text(encoding="utf-8")
    titles = re.findall(r'^<doc id="\d+" url="[^"]*" title="(.*)">$', content, re.M)
    assert [document.place.partition(" (")[2][:-1] for document in found] == [t.replace("&amp;", "&") for t in titles]
    kept = [paragraph for document in found if not document.reason for paragraph in document.paragraphs]
    assert not [paragraph for paragraph in kept if re.search(r"formula_\d|<br|</|&amp;|&lt;|colspan|\(\)", paragraph)]
    # Only short lines and the few with left-over markup are dropped; nearly all text is kept.
    long = [line for line in content.split("\n") if len(line) > 60 and not line.startswith("<doc ")]
    assert sum(map(len, kept)) > 0.94 * sum(map(len, long))
    assert len({line.strip() for line in long} - set(kept)) < 0.07 * len(long)
