"""Labelled TSV files: read whole, or refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_tf.tasks.labelled_text import LabelledText, label_ids, read_tsv


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "rows.tsv"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b'label\ttext\ngood\tA "fine day.\nbad\tRain\n',
        b'\xef\xbb\xbflabel\ttext\r\ngood\tA "fine day.\r\nbad\tRain\r\n',
        b'id\ttext\tlabel\n1\tA "fine day.\tgood\n2\tRain\tbad',
    ],
    ids=["plain", "bom and crlf", "another order"],
)
def test_rows_are_read(content: bytes, tmp_path: Path) -> None:
    rows = read_tsv(write(tmp_path, content), ["text"], "label")
    assert rows == LabelledText((('A "fine day.', "Rain"),), ("good", "bad"))


def test_pairs_are_read(tmp_path: Path) -> None:
    rows = read_tsv(write(tmp_path, b"a\tb\tl\n1\t2\tx\n3\t4\ty\n"), ["b", "a"], "l")
    assert rows.columns == (("2", "4"), ("1", "3"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: no column `text`"),
        (b"label\ttext\n", "no rows after the header"),
        (b"label\tsentence\nx\ty\n", r"line 1: no column `text`. Received: \['label', 'sentence'\]"),
        (b"label\ttext\nx\ty\nx\n", "line 3: expected 2 columns. Received: 1"),
        (b"label\ttext\nx\ty\tz\n", "line 2: expected 2 columns. Received: 3"),
        (b"label\ttext\nx\t \n", "line 2: `text` is empty"),
        (b"label\ttext\n\ty\n", "line 2: `label` is empty"),
        (b"label\ttext\nx\tna\xefve\n", "not UTF-8"),
    ],
)
def test_bad_files_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_tsv(write(tmp_path, content), ["text"], "label")
    assert "rows.tsv" in str(error.value)


def test_label_ids() -> None:
    rows = LabelledText((("a", "b", "c"),), ("x", "y", "x"))
    assert label_ids(rows, ["x", "y"], Path("dev.tsv")) == [0, 1, 0]
    with pytest.raises(ValueError, match=r"dev.tsv: line 3: label 'y' never occurs in training; known: x"):
        label_ids(rows, ["x"], Path("dev.tsv"))
