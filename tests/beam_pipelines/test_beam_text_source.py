"""Reading text files: documents in, documents out; damaged files are told, never shortened."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.errors import InputError
from beam_pipelines.progress import ProgressLog, ProgressReporter
from beam_pipelines.sources.corpus import find_corpus
from beam_pipelines.sources.documents import BATCH_CHARACTERS, OVER_LONG, RawDocument, in_batches
from beam_pipelines.sources.python_docs import ReadSourceFiles
from beam_pipelines.sources.text import ReadTextFiles, read_documents
from bert_tf.config import ConfigError

PACKERS = {"a.txt": bytes, "a.txt.gz": gzip.compress, "a.txt.bz2": bz2.compress}
TEXT = "One two.\nThree é.\n\n\n  \nFour.\r\n\r\nFünf 中文.".encode()
PARAGRAPHS = [("One two.", "Three é."), ("Four.",), ("Fünf 中文.",)]


def read(name: str, content: bytes, limit: int = 1000) -> list[RawDocument]:
    return list(read_documents(name, io.BytesIO(content), limit))


@pytest.mark.parametrize("name", PACKERS)
def test_documents_and_lines(name: str) -> None:
    found = read(name, PACKERS[name](TEXT))
    assert [document.paragraphs for document in found] == PARAGRAPHS
    assert [document.line for document in found] == [1, 6, 8]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2"])
def test_several_compressed_streams_in_one_file(name: str) -> None:
    content = PACKERS[name](TEXT + b"\n\n") + PACKERS[name](b"Six.")
    assert [document.paragraphs for document in read(name, content)] == [*PARAGRAPHS, ("Six.",)]


def test_a_byte_order_mark_is_no_text() -> None:
    assert read("a.txt", b"\xef\xbb\xbfOne.")[0].paragraphs == ("One.",)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2"])
@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_truncated_compression_is_an_error(name: str, kept: float) -> None:
    content = PACKERS[name](TEXT * 500)
    with pytest.raises(InputError, match=rf"{name}: damaged or truncated"):
        read(name, content[: int(kept * len(content))])


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2"])
def test_what_is_not_compressed_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: damaged"):
        read(name, b"plain text")


def test_another_encoding_is_an_error_that_names_the_line() -> None:
    with pytest.raises(InputError, match=r"a\.txt: line 3 is not UTF-8 \(byte 3 of the line\)"):
        read("a.txt", b"One.\n\ncaf\xe9 au lait.\n")


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_a_file_without_text_is_an_error(content: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.txt: holds no text"):
        read("a.txt", content)


@pytest.mark.parametrize("long", ["x" * 50, "é" * 30, "short.\n" * 10])
def test_an_over_long_document_is_marked_and_the_next_one_read(long: str) -> None:
    found = read("a.txt", f"Before.\n\n{long}\n\nAfter.".encode(), limit=41)
    assert [document.reason for document in found] == ["", OVER_LONG, ""]
    assert [document.line for document in found] == [1, 3, 5 + long.count("\n")]
    assert long.startswith(found[1].paragraphs[0])


paragraph = st.text(
    st.characters(exclude_categories=("Cs", "Zl", "Zp", "Zs", "Cc"), exclude_characters="\ufeff"),
    min_size=1,
    max_size=20,
)


@given(st.lists(st.lists(paragraph, min_size=1, max_size=4), min_size=1, max_size=5), st.sampled_from(sorted(PACKERS)))
@settings(deadline=None, max_examples=50)
def test_any_documents_come_back(wanted: list[list[str]], name: str) -> None:
    content = "\n\n".join("\n".join(document) for document in wanted).encode()
    found = read(name, PACKERS[name](content), limit=10_000)
    assert [document.paragraphs for document in found] == [tuple(document) for document in wanted]


def test_batches_are_coarse_and_keep_order() -> None:
    given_documents = [RawDocument("a", number, ("x" * (BATCH_CHARACTERS // 3),)) for number in range(10)]
    batches = list(in_batches(given_documents))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [document for batch in batches for document in batch] == given_documents


def test_the_readers_note_their_progress(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    with ProgressReporter("data", len(TEXT), 1) as progress:
        assert len(list(ReadTextFiles(1000, progress.log).process(str(path)))) == 1
        assert progress.log.totals() == {"read": len(TEXT), "files": 1}
        assert "files 1/1" in progress.line()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("none-*.txt", "matches no file"), ("empty.txt", "is empty"), ("folder", "is a directory")],
)
def test_input_that_is_not_there(tmp_path: Path, pattern: str, message: str) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=message) as caught:
        find_corpus("text", str(tmp_path / pattern))
    assert pattern in str(caught.value)


def test_a_corpus_does_not_depend_on_the_order_of_its_globs(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.txt.bz2"):
        (tmp_path / name).write_bytes(b"x" * 10)
    one = find_corpus("text", f"{tmp_path}/*.txt,{tmp_path}/c*")
    assert one == find_corpus("text", f"{tmp_path}/c*, {tmp_path}/b.txt,{tmp_path}/*")
    assert one.bytes == 30
    assert one.text_bytes == one.work_bytes == 60


def test_python_docs_give_one_document_a_module_or_class() -> None:
    corpus = find_corpus("python_docs", "json")
    pairs = [(file.label, file.path) for file in corpus.files]
    found = [document for batch in ReadSourceFiles(10_000, ProgressLog()).process(pairs) for document in batch]
    assert {Path(document.source).parent.name for document in found} == {"json"}
    assert len(found) > 2
    assert all(document.paragraphs and not document.reason for document in found)
    rejected = [d for batch in ReadSourceFiles(50, ProgressLog()).process(pairs) for d in batch]
    assert OVER_LONG in {document.reason for document in rejected}


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(ValueError, match="no_such_package"):
        find_corpus("python_docs", "no_such_package")
