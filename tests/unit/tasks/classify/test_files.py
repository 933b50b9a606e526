"""Files with named columns: read line by line, or rejected with file and line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.tasks.classify.files import read_rows
from bert_tf.tasks.input_errors import InputErrors


def write(tmp_path: Path, suffix: str, content: bytes) -> Path:
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(content)
    return path


def cells(path: Path, *columns: str, input_errors: InputErrors | None = None) -> list[tuple[str, ...]]:
    return [row for _, row in read_rows(path, columns, InputErrors() if input_errors is None else input_errors)]


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".tsv", b'label\ttext\ngood\tA "fine day.\nbad\tRain\n'),
        (".tsv", b'\xef\xbb\xbflabel\ttext\r\ngood\tA "fine day.\r\nbad\tRain\r\n'),
        (".tsv", b'id\ttext\tlabel\n1\tA "fine day.\tgood\n2\tRain\tbad'),
        (".csv", b'label,text\ngood,"A ""fine day."\nbad,Rain\n'),
        (".csv", b'\xef\xbb\xbf"label","text"\r\n"good","A ""fine day."\r\nbad,Rain'),
        (".jsonl", b'{"label": "good", "text": "A \\"fine day."}\n{"text": "Rain", "label": "bad", "more": null}\n'),
        (".jsonl", b'\xef\xbb\xbf{"label": "good", "text": "A \\"fine day."}\r\n{"text": "Rain", "label": "bad"}'),
    ],
    ids=["tsv", "tsv bom crlf", "tsv another order", "csv", "csv bom crlf", "jsonl", "jsonl bom crlf"],
)
def test_rows_are_read(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, suffix, content)
    assert cells(path, "text", "label") == [('A "fine day.', "good"), ("Rain", "bad")]
    assert cells(path, "label", "text", "label")[1] == ("bad", "Rain", "bad")


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=3, max_size=3), min_size=1
    )
)
def test_any_text_round_trips_through_csv_and_json(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    kept = [tuple(row) for row in rows if all(cell.strip() for cell in row)]
    names = ("a", "b", "c")
    table = io.StringIO()
    csv.writer(table).writerows([names, *rows])
    lines = "".join(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    for suffix, content in ((".csv", table.getvalue()), (".jsonl", lines)):
        assert cells(write(folder, suffix, content.encode()), *names, input_errors=InputErrors(skip=True)) == kept


def test_quoted_tabs_and_newlines_are_text_and_rows_are_named_by_their_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, ".csv", b'text,label\n"one\n\ttwo, three",x\n\nlast,\n')
    input_errors = InputErrors(skip=True)
    assert list(read_rows(path, ["text", "label"], input_errors)) == [(f"{path}: line 2", ("one\n\ttwo, three", "x"))]
    # The blank line before the last one is skipped.
    assert [problem.place for problem in input_errors.problems] == [f"{path}: line 5"]


def test_text_of_a_hundred_thousand_words_is_read(tmp_path: Path) -> None:
    text = "word " * 100_000
    for suffix, content in ((".csv", f'text\n"{text}"\n'), (".tsv", f"text\n{text}\n")):
        assert cells(write(tmp_path, suffix, content.encode()), "text") == [(text,)]


def test_json_values_other_than_strings(tmp_path: Path) -> None:
    content = b'{"text": "a", "label": 1}\n{"text": "a", "label": true}\n{"text": "a", "label": 1.5}\n'
    assert [row[1] for row in cells(write(tmp_path, ".jsonl", content), "text", "label")] == ["1", "true", "1.5"]


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".tsv", b"", "line 1: no column `text`"),
        (".csv", b"", "line 1: no column `text`"),
        (".jsonl", b"", "no lines"),
        (".txt", b"text\tlabel\n", r"must end in .tsv, .csv, .jsonl. Received: '.txt'"),
        (".tsv", b"label\ttext\n", "no rows after the header"),
        (".tsv", b"label\tsentence\nx\ty\n", r"line 1: no column `text`. Received: \['label', 'sentence'\]"),
        (".tsv", b"text\ttext\tlabel\nx\ty\tz\n", "line 1: column `text` occurs 2 times"),
        (".tsv", b"label\ttext\nx\ty\nx\n", "line 3: expected 2 columns. Received: 1"),
        (".tsv", b"label\ttext\nx\ty\tz\n", "line 2: expected 2 columns. Received: 3"),
        (".csv", b'label,text\nx,"y"\nx,y,z\n', "line 3: expected 2 columns. Received: 3"),
        (".csv", b'label,text\nx,y\n"x,y\nx,y\n', "line 3: not CSV: unexpected end of data"),
        (".csv", b'label,text\n"x"x,y\n', "line 2: not CSV: "),
        (".tsv", b"label\ttext\nx\t \n", "line 2: `text` is empty"),
        (".tsv", b"label\ttext\n\ty\n", "line 2: `label` is empty"),
        (".jsonl", b'{"label": "x", "text": "y"}\n{"label": "x", "text": ""}\n', "line 2: `text` is empty"),
        (".jsonl", b'{"label": "x"}\n', r"line 1: no key `text`. Received: \['label'\]"),
        (".jsonl", b'{"label": "x", "text": null}\n', "line 1: `text` must be a string or a number. Received: null"),
        (".jsonl", b'["x", "y"]\n', "line 1: must be a JSON object. Received: "),
        (".jsonl", b'{"label": "x", "text": "y"}\n{"label": \n', "line 2: not JSON: "),
        pytest.param(".jsonl", b"[" * 200_000, "line 1: not JSON: .*nested at most 100 levels", id="deep"),
        (".tsv", b"label\ttext\nx\tna\xefve\n", "line 2: not UTF-8"),
        (".csv", b"label,text\nx,y\nx,na\xefve\n", "line 3: not UTF-8"),
    ],
)
def test_bad_files_are_named(suffix: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        cells(write(tmp_path, suffix, content), "text", "label")
    assert f"rows{suffix}" in str(error.value)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".tsv", b"text\tlabel\na\tx\nb\n\tx\nc\ty\n"),
        (".csv", b"text,label\na,x\nb\n,x\nc,y\n"),
        (".jsonl", b'{"text": "a", "label": "x"}\n{\n{"text": "b"}\n{"text": "c", "label": "y"}\n'),
    ],
)
def test_invalid_rows_are_skipped_and_listed(suffix: str, content: bytes, tmp_path: Path) -> None:
    input_errors = InputErrors(skip=True)
    assert cells(write(tmp_path, suffix, content), "text", "label", input_errors=input_errors) == [
        ("a", "x"),
        ("c", "y"),
    ]
    assert len(input_errors) == 2


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".tsv", b"text\tlabel\nA\tpos\n\nB\tneg\n \n\n"),
        (".csv", b"text,label\nA,pos\n\nB,neg\n\n"),
        (".jsonl", b'{"text": "A", "label": "pos"}\n\n{"text": "B", "label": "neg"}\n\n'),
    ],
)
def test_blank_lines_are_skipped(suffix: str, content: bytes, tmp_path: Path) -> None:
    assert cells(write(tmp_path, suffix, content), "text", "label") == [("A", "pos"), ("B", "neg")]


def test_a_blank_line_between_single_cells_is_an_empty_text(tmp_path: Path) -> None:
    assert cells(write(tmp_path, ".tsv", b"text\nA\nB\n\n\n"), "text") == [("A",), ("B",)]
    with pytest.raises(ValueError, match="line 3: `text` is empty"):
        cells(write(tmp_path, ".tsv", b"text\nA\n\nB\n"), "text")
