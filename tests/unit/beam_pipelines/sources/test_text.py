"""Text files: the same documents for every split of the file; damaged files raise, and are never shortened."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.sources import lines, text
from beam_pipelines.sources.corpus import ReadPart
from beam_pipelines.sources.documents import (
    BATCH_CHARACTERS,
    OVER_LONG,
    UNDECODABLE,
    Part,
    RawDocument,
    ReadSettings,
)
from beam_pipelines.sources.text import Text
from tests.support.beam_pipelines.source_samples import PACKERS, contents, peak_bytes, read, read_parts, split, texts

SAMPLE = "One two.\nThree é.\n\n\n  \nFour.\r\n\r\nFünf 中文.".encode()
PARAGRAPHS = [("One two.", "Three é."), ("Four.",), ("Fünf 中文.",)]


def written(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_documents_and_lines(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, PACKERS[suffix](SAMPLE), f"a.txt{suffix}")
    found = read(Text, path)
    assert texts(found) == PARAGRAPHS
    assert [document.place for document in found] == ["line 1", "line 6", "line 8"]
    assert {document.file for document in found} == {str(path)}


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("before", [[], [b""], [b"Zero.\n\n", b""]])
def test_several_compressed_streams_in_one_file(tmp_path: Path, suffix: str, before: list[bytes]) -> None:
    pack = PACKERS[suffix]
    content = b"".join(map(pack, [*before, SAMPLE + b"\n\n", b"Six.\n", b"Sev", b"en."]))
    found = texts(read(Text, written(tmp_path, content, f"a.txt{suffix}")))
    assert found == [("Zero.",)] * (len(before) > 1) + [*PARAGRAPHS, ("Six.", "Seven.")]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.99])
@pytest.mark.parametrize("streams", [0, 1])
def test_truncated_compression_is_an_error(tmp_path: Path, suffix: str, kept: float, streams: int) -> None:
    whole = PACKERS[suffix]("".join(f"Line {n} é.\n" for n in range(2000)).encode())
    path = written(tmp_path, whole * streams + whole[: int(kept * len(whole))], f"a.txt{suffix}")
    with pytest.raises(InputError, match=rf"a\.txt{suffix}: missing, damaged or truncated after line \d+"):
        read(Text, path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("before", [b"", SAMPLE])
def test_uncompressed_data_in_a_compressed_file_is_an_error(tmp_path: Path, suffix: str, before: bytes) -> None:
    packed = PACKERS[suffix](before) if before else b""
    path = written(tmp_path, packed + b"plain text, nothing else", f"a.txt{suffix}")
    with pytest.raises(InputError, match="damaged"):
        read(Text, path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(PACKERS[suffix](SAMPLE), suffix) for suffix in (".gz", ".bz2", ".zst")]
    + [(b"PAR1\x00\x00", "parquet"), (SAMPLE.decode().encode("utf-16"), "UTF-16"), (b"PK\x03\x04..", "zip")],
)
@pytest.mark.parametrize("edges", [(0, 0), (0, 5)])
def test_a_file_of_another_kind_is_an_error(tmp_path: Path, content: bytes, kind: str, edges: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=rf"a\.txt: is not UTF-8 text but .*{kind}"):
        read_parts(Text, written(tmp_path, content), edges)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.txt: missing"):
        read(Text, tmp_path / "gone.txt")


def test_shrunken_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.txt: has 36 bytes, but had at least 40"):
        read_parts(Text, written(tmp_path, b"x" * 36), (20, 40))


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    assert texts(read(Text, written(tmp_path, b"\xef\xbb\xbfOne.\n\n\xef\xbb\xbfTwo."))) == [("One.",), ("\ufeffTwo.",)]
    assert texts(read(Text, written(tmp_path, b"\xef\xbb\xbf\nOne."))) == [("One.",)]


def test_only_newlines_end_lines_and_only_white_space_is_blank(tmp_path: Path) -> None:
    content = "a\rb\u2028c\x85d\x0be\0f\n\u3000\u00a0\r\n\0\ng\n \t\x0c\x1c\u2028\nh\n".encode()
    found = texts(read(Text, written(tmp_path, content)))
    assert found == [("a\rb\u2028c\x85d\x0be\0f",), ("\0", "g"), ("h",)]


def test_undecodable_document_is_rejected_and_the_next_one_read(tmp_path: Path) -> None:
    content = b"One.\n\nTwo.\ncaf\xe9 au lait.\n\xff\nThree.\n\nFour.\n"
    found = read(Text, written(tmp_path, content))
    assert [(document.reason, document.place) for document in found] == [
        ("", "line 1"), (UNDECODABLE, "line 4"), ("", "line 8")
    ]  # fmt: skip
    assert texts(found) == [("One.",), ("caf\ufffd au lait.",), ("Four.",)]


@pytest.mark.parametrize("content", [b"\xe9" * 1000, b"x" * 5000 + b"\xe9" + b"y" * 5000, b"\xe9"])
def test_excerpt_of_an_undecodable_document_is_short_and_shows_the_position(tmp_path: Path, content: bytes) -> None:
    (found,) = read(Text, written(tmp_path, content))
    assert found.reason == UNDECODABLE
    assert "\ufffd" in found.paragraphs[0]
    assert len(found.paragraphs[0]) <= 200


@pytest.mark.parametrize("content", [b"", b"\n \n\n", b"\xef\xbb\xbf"])
def test_a_file_without_text_is_an_error_unless_it_is_a_part(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=r"a\.txt: has no text"):
        read(Text, path)
    if content:
        assert read_parts(Text, path, (0, len(content))) == []


@pytest.mark.parametrize(
    "long", ["x" * 50, "é" * 30, "short.\n" * 10, "\n".join("é" * 21), "é" * 40_000, "x" * 500_000]
)
def test_over_long_document_is_rejected_and_the_next_one_read(tmp_path: Path, long: str) -> None:
    path = written(tmp_path, f"Before.\n\n{long}\n\nAfter.".encode())
    found = read(Text, path, max_document_bytes=41)
    assert [document.reason for document in found] == ["", OVER_LONG, ""]
    assert [document.place for document in found] == ["line 1", "line 3", f"line {5 + long.count(chr(10))}"]
    assert long.replace("\n", " ").startswith(found[1].paragraphs[0])
    assert 0 < len(found[1].paragraphs[0]) <= 200
    assert texts(read(Text, path, max_document_bytes=600_000))[1] == tuple(long.split())


def test_white_space_beyond_the_limit_is_over_long(tmp_path: Path) -> None:
    path = written(tmp_path, b"One.\n\n" + b" " * 200_000 + b"Two.\n\nThree.")
    assert contents(read(Text, path, max_document_bytes=1000)) == [
        (("One.",), ""),
        (("",), OVER_LONG),
        (("Three.",), ""),
    ]


@pytest.mark.parametrize("document", ["x" * 40, f"  {'x' * 20}\t\r\n\t{'é' * 10}  ", " " * 1000 + "x" * 40])
def test_document_of_the_maximum_length_is_kept(tmp_path: Path, document: str) -> None:
    path = written(tmp_path, document.encode())
    assert read(Text, path, max_document_bytes=40)[0].reason == ""
    assert read(Text, path, max_document_bytes=39)[0].reason == OVER_LONG


@pytest.mark.parametrize("line_end", [b"", b"\n"])
def test_memory_of_a_document_is_limited(tmp_path: Path, line_end: bytes) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"word " * 200_000 + line_end)
    (found,) = read(Text, path, max_document_bytes=3_000_000)
    assert found.reason == OVER_LONG
    reader = Text(ReadSettings(max_document_bytes=3_000_000))
    assert peak_bytes(reader.read(Part(str(path)))) < 15_000_000


pieces = st.sampled_from(
    [b"a", "é".encode(), b"word word", b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b" ", b"\t\n", "\u3000".encode(),
     b"\n\xe3\x80\x80\n", b"\xef\xbb\xbf", b"\xff", b"\0", b"long " * 12, b" " * 40]
)  # fmt: skip


@given(st.lists(pieces, max_size=40), st.lists(st.integers(0, 200), max_size=8), st.integers(8, 70))
@settings(deadline=None, max_examples=400)
def test_any_split_gives_the_same_documents(
    tmp_path_factory: pytest.TempPathFactory, fragments: list[bytes], cuts: list[int], limit: int
) -> None:
    content = b"".join(fragments) or b"\n"
    with pytest.MonkeyPatch.context() as patch:
        # Small enough to be exceeded by lines.
        patch.setattr(text, "_MARGIN", 4)
        patch.setattr(lines, "_BUFFER", 16)
        path = written(tmp_path_factory.getbasetemp(), content)
        size = len(content)
        whole = read_parts(Text, path, (0, size), max_document_bytes=limit)
        edges = sorted({0, size, *(cut % (size + 1) for cut in cuts)})
        assert contents(read_parts(Text, path, edges, max_document_bytes=limit)) == contents(whole)
        assert contents(read_parts(Text, path, range(size + 1), max_document_bytes=limit)) == contents(whole)
        if whole:
            assert read(Text, path, max_document_bytes=limit) == whole


def test_positions_in_later_parts_are_offsets(tmp_path: Path) -> None:
    content = b"One.\n\nTwo.\n\nThree.\n \n\nFour \xff\n\nFive."
    path = written(tmp_path, content)
    found = read_parts(Text, path, (0, 8, 16, len(content)))
    assert len(found) == 5
    assert found[0].place == "line 1"
    for document in found[2:]:
        what, _, offset = document.place.partition(" ")
        assert what == "byte"
        assert content[int(offset) :].startswith(document.paragraphs[0][:4].encode())


def test_large_files_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, b"One.\n\n" * 100)
    assert split(Text, path) == [Part(str(path), size=600)]
    monkeypatch.setattr(lines, "PART_BYTES", 70)
    parts = split(Text, path)
    assert len(parts) == 9
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == sum(part.size for part in parts) == 600
    assert all(part.size == part.end - part.begin for part in parts)
    packed = written(tmp_path, PACKERS[".gz"](b"x" * 10_000), "a.txt.gz")
    monkeypatch.setattr(lines, "PART_BYTES", 7)
    assert split(Text, packed) == [Part(str(packed), size=packed.stat().st_size)]


paragraph = st.text(
    st.characters(exclude_categories=("Cs", "Zl", "Zp", "Zs", "Cc"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=20,
)


@given(st.lists(st.lists(paragraph, min_size=1, max_size=4), min_size=1, max_size=5), st.sampled_from(sorted(PACKERS)))
@settings(deadline=None, max_examples=50)
def test_any_documents_round_trip(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[list[str]], suffix: str
) -> None:
    content = "\n\n".join("\n".join(document) for document in wanted).encode()
    path = written(tmp_path_factory.getbasetemp(), PACKERS[suffix](content), f"any.txt{suffix}")
    assert texts(read(Text, path)) == [tuple(document) for document in wanted]


def test_batches_are_coarse_and_keep_order(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [RawDocument("a", f"line {number}", ("x" * (BATCH_CHARACTERS // 3),)) for number in range(10)]
    monkeypatch.setattr(Text, "read", lambda self, part: iter(documents[part.begin : part.end]))
    step = ReadPart(Text(ReadSettings()), ProgressLog())
    step.start_bundle()
    # A batch continues over the parts of a bundle.
    batches = [batch for part in (Part("a", 0, 5), Part("a", 5, 10)) for batch in step.process(part)]
    batches += [last.value for last in step.finish_bundle()]
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]
    assert [document for batch in batches for document in batch] == documents
