"""Labelled passages: whole documents in one split, no label in the text, no duplicates."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest

from bert_tf.commands.demo.passages import labelled_documents, split_documents, write_passages
from bert_tf.tasks.classify.files import read_rows
from bert_tf.tasks.input_errors import InputErrors


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
    """Returns text and label of each row."""
    return [row for _, row in read_rows(path, ["text", "label"], InputErrors())]


def split(files: list[Path], out: Path) -> tuple[list[Path], list[Path]]:
    return split_documents(labelled_documents(files), out / "corpus", out / "held_out")


def words_of(files: list[Path]) -> set[str]:
    """Returns the first two words of each paragraph, which name its document."""
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if line]
    return {" ".join(line.split()[:2]) for line in lines}


def test_label_is_the_name_of_the_file(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "birds.txt", 50, "wing"), corpus(tmp_path / "fish.txt.bz2", 60, "fin")]
    training, held_out = split(files, tmp_path)
    assert [path.name for path in (*training, *held_out)] == ["birds.txt", "fish.txt"] * 2
    train, dev = write_passages(training, held_out, tmp_path / "out", most_passages=80)
    sides = [rows_of(tmp_path / "out" / f"{side}.tsv") for side in ("train", "dev")]
    assert [len(side) for side in sides] == [train, dev]
    assert train == 160 and 20 < dev < 100
    for side in sides:
        assert {label for _, label in side} == {"birds", "fish"}
        assert all(("wing" in text) == (label == "birds") for text, label in side)


def test_validation_passages_are_not_in_the_training_text(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "birds.txt", 50, "wing"), corpus(tmp_path / "fish.txt", 60, "fin")]
    common = "This paragraph is in every document of both files, which is why it is not held out."
    for path in files:
        path.write_text(path.read_text(encoding="utf-8").replace("\n\n", f"\n{common}\n\n"), encoding="utf-8")
    training, held_out = split(files, tmp_path)
    whole = {f"wing {number}" for number in range(50)} | {f"fin {number}" for number in range(60)}
    assert words_of(training) | words_of(held_out) == whole | {"This paragraph"}
    assert not words_of(training) & words_of(held_out)
    assert 10 < len(words_of(held_out)) < 40


def test_split_of_a_document_does_not_depend_on_others(tmp_path: Path) -> None:
    """Documents stay in their split if the set of files or a library version changes."""
    files = [corpus(tmp_path / "birds.txt", 50, "wing"), corpus(tmp_path / "fish.txt", 60, "fin")]
    before = [words_of(side) for side in split(files, tmp_path / "before")]
    later = [corpus(tmp_path / "fish.txt", 70, "fin"), corpus(tmp_path / "trees.txt", 20, "leaf"), files[0]]
    after = [words_of(side) for side in split(later, tmp_path / "after")]
    assert all(first < second for first, second in zip(before, after, strict=True))


def test_passages_that_name_their_label_or_repeat_are_left_out(tmp_path: Path) -> None:
    sides = []
    for side in ("training", "held_out"):
        (tmp_path / side).mkdir()
        names = {"wing": "wing", "fin": "leg", "copy": "leg", "other": f"tail {side}"}
        sides.append([corpus(tmp_path / side / f"{name}.txt", 40, word) for name, word in names.items()])
    with pytest.raises(ValueError, match="passages of two files"):
        write_passages(*sides, tmp_path / "out")


def test_single_file_is_split_into_quarters(tmp_path: Path) -> None:
    write_passages(*split([corpus(tmp_path / "book.txt", 100, "leaf")], tmp_path), tmp_path / "out")
    rows = rows_of(tmp_path / "out" / "train.tsv")
    assert {label for _, label in rows} == {f"quarter_{part}" for part in range(1, 5)}


def test_single_document_is_split(tmp_path: Path) -> None:
    book = corpus(tmp_path / "book.txt", 100, "leaf")
    book.write_text(book.read_text(encoding="utf-8").replace("\n\n", "\n"), encoding="utf-8")
    train, dev = write_passages(*split([book], tmp_path), tmp_path / "out")
    assert train > dev > 20


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    files = [corpus(tmp_path / "a1.txt", 50, "wing"), corpus(tmp_path / "b1.txt", 50, "fin")]
    sides = split(files, tmp_path)
    times = [path.stat().st_mtime_ns for side in sides for path in side]
    for out in ("one", "two"):
        write_passages(*sides, tmp_path / out, most_passages=60)
    for side in ("train.tsv", "dev.tsv"):
        assert (tmp_path / "one" / side).read_bytes() == (tmp_path / "two" / side).read_bytes()
    # The modification time is unchanged, so a build step does not run again.
    assert split(files, tmp_path) == sides
    assert [path.stat().st_mtime_ns for side in sides for path in side] == times
