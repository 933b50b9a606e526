"""Books: all forms of Project Gutenberg's header and licence, paragraphs from wrapped lines, encodings."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.sources.books import Books, paragraphs_of_book
from beam_pipelines.sources.documents import EMPTY, OVER_LONG, UNDECODABLE
from tests.support.beam_pipelines.source_samples import PACKERS, read

BODY = "CHAPTER I\n\nIt was a dark night,\nand the rain fell.\n\nThe End"
PARAGRAPHS = ["CHAPTER I", "It was a dark night, and the rain fell.", "The End"]
HEADER = (
    "The Project Gutenberg EBook of A Book, by An Author\n\nThis eBook is for the use of anyone.\n\nTitle: A Book\n\n"
)
LICENCE = "\n\nUpdated editions will replace the previous one.\n\n*** START: FULL LICENSE ***\n\nPlease read this.\n"
OLD_HEADER = (
    "Project Gutenberg Etext of A Book, by An Author\n#3 in our series\n\n"
    "*These Etexts Prepared By Hundreds of Volunteers and Donations*\n\n"
    "**Information prepared by the Project Gutenberg legal advisor**\n\n"
)
SMALL_PRINT = "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\nWhy is this here? You know: lawyers.\n\n"

STARTS = [
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
    "***START OF THE PROJECT GUTENBERG EBOOK A BOOK***",
    "*** START OF THE PROJECT GUTENBERG ETEXT A BOOK ***",
    "*** START OF THE COPYRIGHTED PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK; OR, ITS VERY LONG TITLE, WHICH\nGOES ON AND\nON ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK",
    "*** START OF THE PROJECT GUTENBERG EBOOK 12345 ***\n\n\n\n\nProduced by Jane Doe and the Online\n"
    "Distributed Proofreading Team at http://www.pgdp.net",
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\n\nE-text prepared by Jane Doe\n(http://www.pgdp.net)\n\n\n"
    "Note: Project Gutenberg also has an HTML version of this\n      file. See 12345-h.htm",
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\n\nTranscribed from the 1908 Longmans, Green and Co.\n"
    "edition by Jane Doe, email jane@example.org\n\n[Scanned and proofed by John Doe]",
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***\n\nJane Doe and the PG Online Distributed Proofreading Team.",
]
ENDS = [
    "End of the Project Gutenberg EBook of A Book, by An Author\n\n*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***",
    "End of Project Gutenberg's A Book, by An Author\n\n*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** END OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
    "***END OF THE PROJECT GUTENBERG EBOOK A BOOK***",
    "        *** END OF THE COPYRIGHTED PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** END OF THE PROJECT GUTENBERG EBOOK A BOOK; OR, ITS\nLONG TITLE ***",
    "Ende dieses Projekt Gutenberg Etextes Ein Buch",
]
OLD_STARTS = [
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*END THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.12.12.00*END*",
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n\n\nThis etext was prepared by Jane Doe",
    "[Portions of this header are copyright (C) 1999 by Michael S. Hart]\n\n"
    "*SMALL PRINT! Ver.03.17.96 FOR COPYRIGHT PROTECTED ETEXTS*END*",
]
OLD_ENDS = [
    "End of Project Gutenberg Etext of A Book, by An Author",
    "End of The Project Gutenberg Etext of A Book",
    "The end of this Project Gutenberg Etext of A Book".replace("The end", "End"),
    "This is the end of the Project Gutenberg Edition of A Book",
    "",
]


def written(folder: Path, content: bytes, name: str = "book.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("start", STARTS)
def test_header_credits_and_licence(start: str) -> None:
    for end in ENDS:
        assert paragraphs_of_book(f"{HEADER}{start}\n\n\n{BODY}\n\n\n{end}\n{LICENCE}") == PARAGRAPHS, end


@pytest.mark.parametrize("start", OLD_STARTS)
@pytest.mark.parametrize("end", OLD_ENDS)
def test_licence_before_the_text_is_removed(start: str, end: str) -> None:
    text = f"{OLD_HEADER}{SMALL_PRINT}{start}\n\n\n{BODY}\n\n\n{end}\n"
    assert paragraphs_of_book(text) == PARAGRAPHS


@pytest.mark.parametrize("end", OLD_ENDS)
def test_licence_after_the_text_is_removed(end: str) -> None:
    text = f"The Project Gutenberg Etext of A Book\n\n{BODY}\n\n{end}\n\n{SMALL_PRINT}{OLD_STARTS[0]}\n"
    assert paragraphs_of_book(text) == PARAGRAPHS
    if end:
        assert paragraphs_of_book(f"{text}\nThe last page.\n") == PARAGRAPHS


def test_several_books_in_one_file() -> None:
    text = "".join(f"{HEADER}{STARTS[0]}\n\n{body}\n\n{ENDS[0]}{LICENCE}\n" for body in ("One.", "Two.", "Three."))
    assert paragraphs_of_book(text) == ["One.", "Two.", "Three."]
    text = f"{HEADER}{STARTS[0]}\n\nOne.\n\n{STARTS[1]}\n\nTwo.\n\n{ENDS[0]}"
    assert paragraphs_of_book(text) == ["One.", STARTS[1], "Two."]


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"My father entered the hall from the garden.\n\n{BODY}",
        f"This book was read by all.\n\nProduced by machines, it fell from favour.\n\n{BODY}",
        f"In 1971 Project Gutenberg began.\n\n{BODY}\n\nThe end of Project Gutenberg is not near.",
        f"{BODY}\n\n*** A new START OF something ***\n\nMore.",
    ],
)
def test_text_without_gutenberg_markers_is_kept(text: str) -> None:
    assert paragraphs_of_book(text) == [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def test_first_paragraphs_and_transcribers_notes_are_kept() -> None:
    first = ["Transcriber's Note: spelling was kept.", "My father entered the hall from the garden.", "It was created."]
    text = f"{HEADER}{STARTS[0]}\n\nProduced by Jane Doe\n\n" + "\n\n".join(first) + f"\n\n{ENDS[0]}"
    assert paragraphs_of_book(text) == first


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("One\ntwo.\n \n\t\nThree\n   four  five.", ["One two.", "Three four five."]),
        ("It is a _very_ fine _day in\nMay_, _un_believably.", ["It is a very fine day in May, unbelievably."]),
        ("_One begins.\n\nAnd ends._\n\nMr. ____ took H_{2}O.", ["One begins.", "And ends.", "Mr. ____ took H2O."]),
        ("One.\n\n[Illustration: A cat\n[see page 3] and\n\na dog.]\n\n[Illustration]\n\nTwo.", ["One.", "Two."]),
        ("One.\n\n[Illustration: never closed\n\nTwo.", ["One.", "[Illustration: never closed", "Two."]),
        ("One.\n\n12\n\n[Pg 13]Two [Page 14]three{15}.\n\n- 16 -\n\nPage 17\n\nxviii\n\nIV.\n\n1984 was a year.",
         ["One.", "Two three.", "1984 was a year."]),
        ("One.\n\n* * * * *\n\n-----\n\nTwo.", ["One.", "Two."]),
        ("He came--\nand went\n--so they say—\nat last.", ["He came--and went--so they say—at last."]),
        ("From 1914-\n1918 it lasted.", ["From 1914-1918 it lasted."]),
        ("今日は\n良い天気です。\n\nHangul 한국\n어", ["今日は良い天気です。", "Hangul 한국 어"]),
        ("soft\u00ad\nware", ["software"]),
    ],
)  # fmt: skip
def test_lines_become_paragraphs(text: str, paragraphs: list[str]) -> None:
    assert paragraphs_of_book(text) == paragraphs


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("He came to-day. And to-\nday he left.", "to-day he left."),
        ("The garden lies here. A gar-\nden is there.", "A garden is there."),
        ("The garden. A gar-\nden of Anglo-\nSaxon kings.", "A garden of Anglo-Saxon kings."),
        # Unknown words follow the more frequent case in the book.
        ("The garden, the window. A gar-\nden, a win-\ndow, an el-\nephant.", "a window, an elephant."),
        ("To-day, to-morrow. He to-\nday and to-\nmorrow is well-\nfed.", "and to-morrow is well-fed."),
        ("Nothing is known of zig-\nzag.", "of zig-zag."),
        (
            "The man-of-war. A man-of-\nwar and a gar-\nden; the garden.",
            "A man-of-war and a garden; the garden.",
        ),
    ],
)
def test_hyphens_at_line_ends(text: str, joined: str) -> None:
    assert paragraphs_of_book(text)[0].endswith(joined)


def test_file_with_one_paragraph_per_line() -> None:
    lines = [f"Paragraph {number} is one line, {'as long as paragraphs are ' * 10}." for number in range(20)]
    assert paragraphs_of_book("\n".join(["CHAPTER ONE", *lines])) == ["CHAPTER ONE", *lines]


@pytest.mark.parametrize(
    ("stated", "encoding"),
    [
        ("ISO-8859-1", "latin-1"), ("ISO Latin-1", "latin-1"), ("iso-8859-1", "cp1252"),
        ("ISO 8859-1 (Latin-1)", "latin-1"),
        ("Windows-1252", "cp1252"), ("Codepage 1252", "cp1252"), ("Windows Code Page 1252", "cp1252"),
        ("ISO-8859-2", "iso8859-2"), ("UTF-8", "utf-8"), ("Unicode UTF-8", "utf-8-sig"), ("ASCII", "utf-8"),
        ("Big5", "big5"), ("MacRoman", "mac_roman"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", PACKERS)
def test_encodings(tmp_path: Path, stated: str, encoding: str, suffix: str) -> None:
    line = {"big5": "今日", "cp1252": "“Café” – naïve", "iso8859-2": "Škoda łódź"}.get(encoding, "Café naïve")
    text = f"{HEADER}Character set encoding: {stated}\r\n\r\n{STARTS[0]}\r\n\r\n{line}\r\n\r\n{ENDS[0]}\r\n"
    path = written(tmp_path, PACKERS[suffix](text.encode(encoding)), f"book.txt{suffix}")
    (found,) = read(Books, path)
    assert (found.paragraphs, found.reason, found.place) == ((line,), "", "line 1")


@pytest.mark.parametrize("stated", ["", "Character set encoding: ASCII\n", "Character set encoding: none of ours\n"])
def test_undecodable_book_is_rejected(tmp_path: Path, stated: str) -> None:
    content = f"{HEADER}{stated}Café\n".encode("latin-1")
    (found,) = read(Books, written(tmp_path, content))
    assert found.reason == UNDECODABLE
    assert found.place == f"line {content[: content.index(0xE9)].count(10) + 1}"
    assert "Caf\ufffd" in found.paragraphs[0]


@pytest.mark.parametrize("content", [b"", b"\n\n", f"{HEADER}{STARTS[0]}\n\n{ENDS[0]}\n{LICENCE}".encode()])
def test_a_book_without_text_is_empty(tmp_path: Path, content: bytes) -> None:
    assert [document.reason for document in read(Books, written(tmp_path, content))] == [EMPTY]


def test_over_long_books(tmp_path: Path) -> None:
    body = "\n\n".join(["word " * 20 + "end."] * 1000)
    path = written(tmp_path, f"{HEADER}{STARTS[0]}\n\n{body}\n\n{ENDS[0]}".encode())
    size = sum(len(paragraph) for paragraph in read(Books, path)[0].paragraphs)
    for limit, reason in ((size, ""), (size - 1, OVER_LONG), (1000, OVER_LONG)):
        (found,) = read(Books, path, max_document_bytes=limit)
        assert found.reason == reason
    assert found.paragraphs[0].startswith("word word")
    assert len(found.paragraphs[0]) == 200


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_truncated_compression_is_an_error(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix]("".join(f"Line {number}.\n" for number in range(5000)).encode())
    with pytest.raises(InputError, match=rf"book\.txt{suffix}: missing, damaged or truncated"):
        read(Books, written(tmp_path, packed[:-10], f"book.txt{suffix}"))


words = st.text(st.sampled_from("abcdeé"), min_size=1, max_size=12)


@given(
    st.lists(st.lists(words, min_size=1, max_size=40), min_size=1, max_size=8),
    st.integers(14, 80),
    st.sampled_from(STARTS),
)
@settings(deadline=None, max_examples=100)
def test_any_wrapped_paragraphs_round_trip(expected: list[list[str]], width: int, start: str) -> None:
    paragraphs = [f"So {' '.join(paragraph)}." for paragraph in expected]
    body = "\n\n".join(textwrap.fill(paragraph, width, break_on_hyphens=False) for paragraph in paragraphs)
    assert paragraphs_of_book(f"{HEADER}{start}\n\n{body}\n\n{ENDS[0]}{LICENCE}") == paragraphs
