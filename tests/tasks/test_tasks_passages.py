"""Labelled passages: whole documents on one side, no label to be read, nothing twice."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from bert_tf.tasks.labelled_text import read_rows
from bert_tf.tasks.passages import write_passages
from bert_tf.tasks.problems import Problems


def corpus(path: Path, documents: int, word: str) -> Path:
    text = "\n\n".join(
        "\n".join(f"{word} {document} {line} " + "and so on " * 10 + "." for line in range(3))
        for document in range(documents)
    )
    opener = bz2.open if path.suffix == ".bz2" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def rows_of(path: Path) -> list[tuple[str, ...]]:
    """Returns text and label of every row."""
    return [row for _, row in read_rows(path, ["text", "label"], Problems())]


def test_the_label_is_the_file(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "birds.txt", 50, "wing"), corpus(tmp_path / "fish.txt.bz2", 60, "fin")]
    train, dev = write_passages(files, tmp_path / "out", most_passages=100)
    sides = [rows_of(tmp_path / "out" / f"{side}.tsv") for side in ("train", "dev")]
    assert [len(side) for side in sides] == [train, dev]
    assert train + dev == 200
    for side in sides:
        assert {label for _, label in side} == {"birds", "fish"}
        assert all(("wing" in text) == (label == "birds") for text, label in side)
    documents = [{" ".join(text.split()[:2]) for text, _ in side} for side in sides]
    assert not documents[0] & documents[1]


def test_a_passage_that_names_its_label_or_stands_twice_is_left_out(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "wing.txt", 40, "wing"), corpus(tmp_path / "fin.txt", 40, "leg"),
             corpus(tmp_path / "copy.txt", 40, "leg"), corpus(tmp_path / "other.txt", 40, "tail")]  # fmt: skip
    with pytest.raises(ValueError, match="passages of two files"):
        write_passages(files, tmp_path / "out")


def test_one_file_is_cut_in_quarters(tmp_path: Path) -> None:
    write_passages([corpus(tmp_path / "book.txt", 100, "leaf")], tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "train.tsv")
    assert {label for _, label in rows} == {f"quarter_{part}" for part in range(1, 5)}


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "a1.txt", 50, "wing"), corpus(tmp_path / "b1.txt", 50, "fin")]
    for out in ("one", "two"):
        write_passages(files, tmp_path / out, most_passages=60)
    for side in ("train.tsv", "dev.tsv"):
        assert (tmp_path / "one" / side).read_bytes() == (tmp_path / "two" / side).read_bytes()
