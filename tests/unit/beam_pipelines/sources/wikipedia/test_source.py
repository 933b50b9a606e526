"""MediaWiki dumps: the same pages for every packing and split; damage is reported and affects no other page."""

from __future__ import annotations

import bz2
import itertools
import pickle
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.sources import lines
from beam_pipelines.sources.documents import MALFORMED, OVER_LONG, UNDECODABLE, Part, RawDocument, ReadSettings
from beam_pipelines.sources.wikipedia import dump_files
from beam_pipelines.sources.wikipedia.dump_pages import Extent, PageBytes, pages_of
from beam_pipelines.sources.wikipedia.source import Wikipedia
from tests.support.beam_pipelines.wiki_samples import (
    END,
    HEAD,
    articles,
    dump,
    page,
    parts_of,
    read,
    write_dump,
    write_multistream,
)

PLAIN = "wiki.xml"
MULTISTREAM = "wiki-20240101-pages-articles-multistream1.xml-p1p41242.bz2"


def reasons(documents: list[RawDocument]) -> list[str]:
    return [document.reason for document in documents]


def test_pages_become_documents(tmp_path: Path) -> None:
    text = "'''One''' is [[Fails:a|thumb|x]]a number.\n\n* item\n\nTwo &amp; three."
    found = read(write_dump(tmp_path / PLAIN, dump([page(7, text, "One & <two>")])))
    assert found == [RawDocument("", "page 7 (One & <two>)", ("One is a number.", "Two & three."))]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (page(1, "Talk.", "Sprīža:A", "<ns>1</ns>"), "namespace"),
        (page(1, "#REDIRECT [[B]]", "Sprīža:A", '<ns>1</ns><redirect title="B" />'), "namespace"),
        (page(1, "Talk.", "Sprīža:A", ""), "namespace"),
        (page(1, "x", extra='<ns>0</ns>\n    <redirect title="B" />'), "redirect"),
        (page(1, "#REDIRECT [[B]]\n\n{{R from move}}"), "redirect"),
        (page(1, "#WEITERLEITUNG [[B]]"), "redirect"),
        (page(1, "A may be:\n* b\n{{Disambig}}"), "disambiguation"),
        (page(1, "A.", "A (Begriffsklärung)"), "disambiguation"),
        (page(1, "{{Infobox}}\n* a\n* b"), "no_passages"),
        (page(1, ""), "no_passages"),
        (page(1, "").replace(b'bytes="0"', b'deleted="deleted"'), "no_passages"),
        (page(1, '{"a": 1}', model="json"), "not_wikitext"),
        (page(1, "Text.", "A", ""), ""),
        (page(1, "Text.", "Star Trek: A", ""), ""),
    ],
)
def test_redirects_and_other_namespaces_are_left_out(tmp_path: Path, content: bytes, reason: str) -> None:
    found = read(write_dump(tmp_path / PLAIN, dump([content, page(2, "Next.")])))
    assert reasons(found) == [reason, ""]
    assert found[0].place.startswith("page 1 (")
    assert len(found[0].paragraphs) == 1


def test_last_revision_is_used(tmp_path: Path) -> None:
    first, second = page(1, "Old."), page(1, "New.")
    revision = second[second.index(b"<revision>") : second.index(b"</revision>")] + b"</revision>"
    both = first.replace(b"</revision>", b"</revision>" + revision)
    assert read(write_dump(tmp_path / PLAIN, dump([both])))[0].paragraphs == ("New.",)


@pytest.mark.parametrize("name", ["a.xml.bz2", "a.xml.gz", "enwiki-20240101-pages-articles1.xml-p1p41242", "dump"])
def test_every_compression_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    content = dump(articles(30))
    expected = read(write_dump(tmp_path / PLAIN, content))
    assert len(expected) == 29
    path = write_dump(tmp_path / name, content)
    assert read(path) == expected
    assert parts_of(path) == [Part(str(path), size=path.stat().st_size)]


@pytest.mark.parametrize("part_bytes", [200, 1000, 3000])
@pytest.mark.parametrize("pages_a_stream", [1, 3, 100])
@pytest.mark.parametrize("name", [MULTISTREAM, "a-multistream.xml.bz2"])
def test_parts_give_the_same_documents_as_serial_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int, pages_a_stream: int, name: str
) -> None:
    pages = articles(40)
    serial = read(write_dump(tmp_path / "serial.xml.bz2", dump(pages)))
    monkeypatch.setattr(lines, "PART_BYTES", part_bytes)
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", part_bytes)
    plain = write_dump(tmp_path / PLAIN, dump(pages))
    index = write_multistream(tmp_path / name, pages, pages_a_stream)
    for path in (plain, tmp_path / name):
        parts = parts_of(path)
        assert read(path, parts) == serial
        assert sum(part.size for part in parts) == path.stat().st_size
        assert len(parts) > 1 or pages_a_stream == 100 or part_bytes > 1000
    assert index.exists()
    index.write_bytes(bz2.decompress(index.read_bytes()))
    index.rename(index.with_suffix("") if index.name.endswith(".txt.bz2") else str(index).removesuffix(".bz2"))
    assert len(parts_of(tmp_path / name)) == len(parts)


def test_real_dumps_give_the_same_in_parts(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shared_data / "raw/dumps/tinywiki-latest-pages-articles.xml"
    content = source.read_bytes()
    pages = re.findall(rb"<page>.*?</page>\s*", content, re.S)
    write_multistream(tmp_path / MULTISTREAM, pages, 2, content[: content.index(b"<page>")])
    serial = read(write_dump(tmp_path / "serial.xml.gz", content))
    assert Counter(reasons(serial)) == {"": 6, "redirect": 1, "disambiguation": 1}
    monkeypatch.setattr(lines, "PART_BYTES", 1 << 12)
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", 1 << 11)
    for path in (write_dump(tmp_path / PLAIN, content), tmp_path / MULTISTREAM):
        assert len(parts_of(path)) > 2
        assert read(path) == serial


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("enwiki*", {"": 97, "redirect": 99, "disambiguation": 8, "namespace": 1, "no_passages": 1}),
        ("ltgwiki*", {"": 868, "redirect": 147, "disambiguation": 7, "namespace": 954, "no_passages": 28}),
        ("dbpedia*", {"": 34, "redirect": 2, "disambiguation": 1, "namespace": 1}),
    ],
)
def test_real_dumps(shared_data: Path, pattern: str, expected: dict[str, int]) -> None:
    found = [document for path in sorted(shared_data.glob(f"raw/dumps/{pattern}")) for document in read(path)]
    assert Counter(reasons(found)) == expected
    assert all(document.place.startswith("page ") for document in found)


@given(st.lists(st.integers(0, 4000), max_size=8), st.integers(2, 12), st.data())
@settings(deadline=None, max_examples=60)
def test_any_ranges_of_any_bytes_give_each_page_once(
    tmp_path_factory: pytest.TempPathFactory, edges: list[int], count: int, data: st.DataObject
) -> None:
    """The parts together yield the same pages as the whole file, for all edges and damages."""
    content = bytearray(dump(articles(count)))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(len(HEAD) + 2, len(content) - len(END) - 1))
        content[position] = data.draw(st.integers(0, 255))
    path = write_dump(tmp_path_factory.mktemp("cuts") / PLAIN, bytes(content))
    cuts = [0, *sorted({edge for edge in edges if 0 < edge < len(content)}), len(content)]
    parts = [Part(str(path), begin, end, end - begin) for begin, end in itertools.pairwise(cuts)]
    assert read(path, parts) == read(path, [Part(str(path))])


DAMAGED = {
    "xml": (page(2, "Bad.").replace(b"</title>", b"</titel>"), MALFORMED),
    "control character": (page(2, "Bad.\x01"), MALFORMED),
    "utf-8": (page(2, "Bad.").replace(b"Bad", b"B\xe4d"), UNDECODABLE),
    "no text": (page(2, "Bad.").replace(b"<text ", b"<texts ").replace(b"</text>", b"</texts>"), MALFORMED),
    "text left out": (page(2, "Bad.").replace(b">Bad.</text>", b"></text>"), MALFORMED),
    "no revision": (page(2, "Bad.").replace(b"revision>", b"version>"), MALFORMED),
    "no title": (page(2, "Bad.").replace(b"title>", b"name>"), MALFORMED),
    "namespace": (page(2, "Bad.", extra="<ns>x</ns>"), MALFORMED),
    "not closed": (page(2, "Bad.").replace(b"</page>", b"</pag"), MALFORMED),
    "not opened": (page(2, "Bad.").replace(b"<page>", b"<pa\x00e>"), MALFORMED),
    "entity": (page(2, "Bad.").replace(b"Bad.", b"&undefined;"), MALFORMED),
    "long": (page(2, "Bad. " * 60), OVER_LONG),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_page_does_not_affect_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    damaged, reason = DAMAGED[kind]
    pages = [page(1, "One."), damaged, page(3, "Three.")]
    path = write_dump(tmp_path / PLAIN, dump(pages))
    found = read(path, limit=200)
    assert reasons(found) == ["", reason, ""]
    assert [found[0].paragraphs, found[2].paragraphs] == [("One.",), ("Three.",)]
    assert found[1].place.startswith(("page 2 (Title 2)", "byte "))
    assert 0 < len(found[1].paragraphs[0]) <= 200
    write_multistream(tmp_path / MULTISTREAM, pages, 1)
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", 1)
    assert reasons(read(tmp_path / MULTISTREAM, limit=200)) == ["", reason, ""]
    last = read(write_dump(tmp_path / "last.xml", dump([*pages[2:], damaged])), limit=200)
    assert reasons(last) == ["", reason]


def test_a_page_of_thirty_megabytes(tmp_path: Path) -> None:
    long = "A short passage.<!-- " + "and a very long comment " * 1_300_000 + " -->"
    path = write_dump(tmp_path / PLAIN, dump([page(1, "One."), page(2, long), page(3, "Three.")]))
    size = path.stat().st_size
    assert size > 30_000_000
    edges = [*range(0, size, 8 << 20), size]
    parts = [Part(str(path), begin, end) for begin, end in itertools.pairwise(edges)]
    for chosen in ([Part(str(path))], parts):
        found = read(path, chosen)
        assert reasons(found) == ["", OVER_LONG, ""]
        assert found[1].place == "page 2 (Title 2)"
    assert read(path, limit=20_000_000)[1].paragraphs == ("A short passage.",)


def test_memory_of_a_page_is_limited() -> None:
    chunk = b"x" * (1 << 20)
    start = HEAD + page(1, "One.") + b"  <page><title>T</title><id>2</id>"
    end = b"</page>" + page(3, "Three.") + END
    tracemalloc.start()
    found = list(pages_of("a", itertools.chain([start], itertools.repeat(chunk, 300), [end]), Extent(), 4 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [given.fault for given in found] == ["", OVER_LONG, ""]
    assert found[1].offset == start.index(b"<page>", len(HEAD) + 20)
    assert found[2].offset == len(start) + 300 * len(chunk) + end.index(b"<page>")
    assert peak < 24 << 20


def test_part_without_a_page_stops_at_its_end() -> None:
    """A long page spans many parts; otherwise each of their readers would read to its end."""
    chunks = itertools.repeat(b"x" * 1000, 300)
    extent = Extent(first=5_000, end=9_000, has_head=False)
    assert list(pages_of("a", chunks, extent, 1 << 20)) == []
    assert len(list(chunks)) > 290


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95, 0.9999])
@pytest.mark.parametrize("name", ["a.xml.bz2", "a.xml.gz", "a.xml"])
def test_truncated_dumps(tmp_path: Path, name: str, kept: float) -> None:
    path = write_dump(tmp_path / name, dump(articles(200)))
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size) - 6])
    with pytest.raises(InputError, match=rf"{path}: .*(truncated|is not a MediaWiki).*") as caught:
        read(path)
    assert "byte" in str(caught.value) or "Received" in str(caught.value)


def test_truncated_dump_reports_its_position(tmp_path: Path) -> None:
    content = dump([page(1, "One."), page(2, "Two. " * 100)])
    path = write_dump(tmp_path / PLAIN, content[:-300])
    with pytest.raises(InputError, match=rf"ends within page 2 \(Title 2\), at byte {len(content) - 300}: .*truncated"):
        read(path)
    middle = len(HEAD) + 150
    parts = [Part(str(path), 0, middle), Part(str(path), middle, path.stat().st_size)]
    assert len(list(Wikipedia(ReadSettings()).read(parts[0]))) == 1
    with pytest.raises(InputError, match="truncated"):
        read(path, parts[1:])
    path.write_bytes(content[: -len(END)])
    with pytest.raises(InputError, match=r"ends at byte \d+ without </mediawiki>: the dump is truncated"):
        read(path)


def test_damage_is_reported_with_its_position(tmp_path: Path) -> None:
    content = dump(articles(300))
    half = len(content) // 2
    path = tmp_path / "a.xml.bz2"
    path.write_bytes(bz2.compress(content[:half]) + bz2.compress(content[half:])[:-10])
    with pytest.raises(InputError, match=rf"{path}: missing, damaged or truncated after \d+ bytes of text") as caught:
        read(path)
    assert half <= int(re.findall(r"after (\d+) bytes", str(caught.value))[0]) < len(content)


def test_concatenated_dumps(tmp_path: Path) -> None:
    content = dump([page(1, "One.")]) + b'<?xml version="1.0"?>\n' + dump([page(2, "Two.")])
    assert [found.paragraphs for found in read(write_dump(tmp_path / PLAIN, content))] == [("One.",), ("Two.",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Plain text.\n", "is not a MediaWiki XML dump"),
        (b"<feed><page></page></feed>", "is not a MediaWiki XML dump"),
        (b'{"a": "<page>"}', "is not a MediaWiki XML dump"),
        (dump([]), "has no page"),
    ],
)
@pytest.mark.parametrize("name", ["a.xml", "a.xml.bz2", "a.xml.gz"])
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = write_dump(tmp_path / name, content)
    with pytest.raises(InputError, match=message):
        read(path)


def test_deleted_file_is_an_error(tmp_path: Path) -> None:
    path = write_dump(tmp_path / PLAIN, dump(articles(3)))
    parts = parts_of(path)
    path.unlink()
    with pytest.raises(InputError, match=rf"{path}: missing"):
        read(path, parts)


def test_shrunken_file_is_an_error(tmp_path: Path) -> None:
    path = write_dump(tmp_path / PLAIN, dump(articles(30)))
    size = path.stat().st_size
    path.write_bytes(dump(articles(3)))
    with pytest.raises(InputError, match=rf"but had at least {size} when the run began"):
        read(path, [Part(str(path), 1000, size)])


def altered_index(path: Path, old: bytes, new: bytes) -> None:
    lines = bz2.decompress(path.read_bytes())
    assert old in lines
    path.write_bytes(bz2.compress(lines.replace(old, new)))


@pytest.mark.parametrize("part_bytes", [1, 8 << 20])
def test_index_of_another_dump_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", part_bytes)
    path = tmp_path / MULTISTREAM
    index = write_multistream(path, articles(30), 10)
    offsets = sorted(
        {int(line.split(b":")[0]) for line in bz2.decompress(index.read_bytes()).split()[::4] if line[:1].isdigit()}
    )
    good = index.read_bytes()
    for wrong in (offsets[1] + 1, offsets[1] - 1, offsets[0] + 5):
        index.write_bytes(good)
        altered_index(index, b"\n%d:" % offsets[1], b"\n%d:" % wrong)
        with pytest.raises(InputError, match=rf"{path}: .*bz2 stream.*damaged|{path}: its index lists streams"):
            read(path)
    index.write_bytes(good)
    altered_index(index, b"\n%d:" % offsets[1], b"\n%d:" % path.stat().st_size)
    with pytest.raises(InputError, match=rf"{index}: lists a stream at byte {path.stat().st_size}, but .* has"):
        parts_of(path)


@pytest.mark.parametrize("content", [b"12:3:A\nno index\n", b"x:1:A\n", b"12\n", b"", b"-1:2:A"])
def test_invalid_index_is_refused(tmp_path: Path, content: bytes) -> None:
    index = write_multistream(tmp_path / MULTISTREAM, articles(3), 1)
    index.write_bytes(bz2.compress(content))
    with pytest.raises(InputError, match=rf"{index}: (line \d is not offset:page id:title|lists no stream)"):
        parts_of(tmp_path / MULTISTREAM)
    index.write_bytes(bz2.compress(b"12:3:A\n" * 1000)[:-4])
    with pytest.raises(InputError, match=rf"{index}: missing, damaged or truncated"):
        parts_of(tmp_path / MULTISTREAM)


@pytest.mark.parametrize("part_bytes", [1, 8 << 20])
def test_damaged_multistreams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", part_bytes)
    path = tmp_path / MULTISTREAM
    write_multistream(path, articles(60), 10)
    good = path.read_bytes()
    second = parts_of(path)[0].end if part_bytes == 1 else good.index(b"BZh", 300)
    for content in (
        good[:-30],
        good[:second] + b"XXX" + good[second + 3 :],
        good[: second + 20] + b"XX" + good[second + 22 :],
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"{path.name}: .*byte \d+"):
            read(path, [part._replace(end=min(part.end, len(content))) for part in parts_of(path)])


def test_stream_that_begins_within_a_page_loses_only_that_page(tmp_path: Path) -> None:
    path = tmp_path / MULTISTREAM
    content = dump([page(1, "One."), page(2, "Two."), page(3, "Three.")])
    cut = content.index(b"Two")
    path.write_bytes(bz2.compress(content[:cut]) + bz2.compress(content[cut:]))
    middle = len(bz2.compress(content[:cut]))
    parts = [Part(str(path), 0, middle), Part(str(path), middle, path.stat().st_size)]
    assert reasons(read(path, parts)) == ["", MALFORMED, MALFORMED, ""]
    assert reasons(read(path, [Part(str(path))])) == ["", "", ""]


def test_index_files_have_no_documents(tmp_path: Path) -> None:
    index = write_multistream(tmp_path / MULTISTREAM, articles(3), 1)
    assert parts_of(index) == [Part(str(index), size=index.stat().st_size)]
    assert read(index) == []


def test_every_part_has_the_namespaces_of_its_wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are only in the head of the file, which most parts do not contain."""
    monkeypatch.setattr(lines, "PART_BYTES", 300)
    monkeypatch.setattr(dump_files, "STREAM_PART_BYTES", 1)
    head = HEAD.replace(b"Fails", b"Byla")
    pages = [page(number, f"[[Byla:a|thumb|x]]Text {number}.") for number in range(1, 9)]
    write_dump(tmp_path / PLAIN, head + b"".join(pages) + END)
    write_multistream(tmp_path / MULTISTREAM, pages, 2, head)
    for path in (tmp_path / PLAIN, tmp_path / MULTISTREAM):
        assert len(parts_of(path)) > 3
        assert [found.paragraphs for found in read(path)] == [(f"Text {number}.",) for number in range(1, 9)]


def test_too_long_documents_are_rejected(tmp_path: Path) -> None:
    path = write_dump(tmp_path / PLAIN, dump([page(1, "é" * 60), page(2, "e" * 60)]))
    assert reasons(read(path, limit=100)) == [OVER_LONG, ""]


def test_pages_are_found_across_chunks() -> None:
    content = dump(articles(5))
    whole = list(pages_of("a", [content], Extent(), 10_000))
    assert len(whole) == 4
    assert whole[0] == PageBytes(
        content.index(b"<page>"), content[content.index(b"<page>") :].partition(b"</page>")[0] + b"</page>"
    )
    for size in (1, 2, 7, 11):
        assert (
            list(pages_of("a", [content[at : at + size] for at in range(0, len(content), size)], Extent(), 10_000))
            == whole
        )


def test_format_can_be_pickled() -> None:
    format = pickle.loads(pickle.dumps(Wikipedia(ReadSettings(max_document_bytes=5))))
    assert format.settings.max_document_bytes == 5
