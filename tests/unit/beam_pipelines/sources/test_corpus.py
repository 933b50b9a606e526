"""Inputs, their files, and the lists of formats, languages and weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.sources.corpus import Input, find_corpus
from bert_tf.config import ConfigError


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("none-*.txt", "matches no file"), ("empty.txt", "is empty"), ("folder", "is a directory")],
)
def test_missing_input_is_an_error(tmp_path: Path, pattern: str, message: str) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=message) as caught:
        find_corpus(str(tmp_path / pattern))
    assert pattern in str(caught.value)


def test_the_files_of_a_corpus_do_not_depend_on_the_order_of_its_globs(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.txt.bz2"):
        (tmp_path / name).write_bytes(b"x" * 10)
    one = find_corpus(f"{tmp_path}/*.txt,{tmp_path}/c*")
    other = find_corpus(f"{tmp_path}/c*, {tmp_path}/b.txt,{tmp_path}/*")
    assert [file.path for file in one.files] == [file.path for file in other.files]
    assert one.bytes == 30
    assert one.text_bytes == one.work_bytes > 50


def test_lists_are_matched_to_the_inputs_in_order(tmp_path: Path) -> None:
    for name in ("a.txt", "b.jsonl"):
        (tmp_path / name).write_bytes(b"x")
    corpus = find_corpus(f"{tmp_path}/a.txt,{tmp_path}/*", "text,jsonl", "de", "1,0.5")
    assert corpus.inputs == (
        Input(f"{tmp_path}/a.txt", "text", "de", 1.0),
        Input(f"{tmp_path}/*", "jsonl", "de", 0.5),
    )
    # A file that matches two inputs belongs to the first one.
    assert [(Path(file.path).name, file.source) for file in corpus.files] == [("a.txt", 0), ("b.jsonl", 1)]
    assert (corpus.languages, corpus.weights) == (("de", "de"), (1.0, 0.5))
    assert [Path(file.path).name for file in corpus.files_of(1)] == ["b.jsonl"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"formats": "text,text,text"}, "--format must have one entry, or one for each of the 2 inputs"),
        ({"formats": "xml"}, "--format must be one of text, .* Received: 'xml'"),
        ({"weights": "1,heavy"}, "--weights must be positive numbers. Received: 'heavy'"),
        ({"weights": "0"}, "--weights must be positive"),
        ({"weights": "inf"}, "--weights must be positive"),
        ({"languages": "English"}, "--language must be ISO 639 codes"),
        ({"languages": ""}, "--language must have one entry"),
    ],
)
def test_lists_of_another_length_are_refused(tmp_path: Path, lists: dict[str, str], message: str) -> None:
    for name in "ab":
        (tmp_path / name).write_text("text")
    with pytest.raises(ConfigError, match=message):
        find_corpus(f"{tmp_path}/a,{tmp_path}/b", **lists)


def test_packages_can_be_inputs() -> None:
    corpus = find_corpus("json,logging", "python_docs")
    assert {file.label for file in corpus.files} == {"json", "logging"}
    assert {file.source for file in corpus.files} == {0, 1}
    with pytest.raises(ValueError, match="no_such_package"):
        find_corpus("no_such_package", "python_docs")
