"""Files of texts and labels with named columns: tab-separated, comma-separated, or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bert_tf.config.base import parse_json
from bert_tf.tasks.input_errors import InputErrors

TSV, CSV, JSONL = ".tsv", ".csv", ".jsonl"
SUFFIXES = (TSV, CSV, JSONL)
# The csv module's default limit is 131,072 characters a cell.
_LONGEST_CELL = 2**31 - 1

Row = tuple[str, tuple[str, ...]]


def read_rows(path: Path, columns: Sequence[str], input_errors: InputErrors) -> Iterator[Row]:
    """Yields file and line, and the cells of `columns`, of each row, in the format of the file's suffix.

    .tsv: tab-separated with a header line; quotes are ordinary characters, as in GLUE's files. .csv: RFC 4180 with a
    header line; a quoted cell may contain commas, tabs and line breaks. .jsonl: one object a line with keys instead of
    columns; numbers, true and false are read as their JSON text. Files are UTF-8, with or without a byte order mark,
    with lines terminated by LF or CRLF.

    Blank lines are skipped, but not between the rows of a file with one column, where they are empty cells. Rows of
    another width or without some column, and empty cells, are added to `input_errors`. Raises ValueError, with
    file and line, for another suffix, an empty file, a missing column, unclosed quotes, and bytes that are not UTF-8.
    """
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: the name must end in {', '.join(SUFFIXES)}. Received: {path.suffix!r}")
    rows = _objects(path, columns, input_errors) if path.suffix == JSONL else _cells(path, columns, input_errors)
    for place, row in rows:
        empty = [name for name, cell in zip(columns, row, strict=True) if not cell.strip()]
        if empty:
            input_errors.add(place, f"`{empty[0]}` is empty.")
            continue
        yield place, row


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line of a UTF-8 file, without line end; ValueError for other bytes."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, _decoded(path, number, line).removesuffix("\n").removesuffix("\r")


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: line {number}: not UTF-8: {error}") from error


def _cells(path: Path, columns: Sequence[str], input_errors: InputErrors) -> Iterator[Row]:
    """Yields the rows of a file with a header line."""
    numbered = _csv_rows(path) if path.suffix == CSV else _tsv_rows(path)
    _, header = next(numbered, (1, [""]))
    indices = [_index(path, header, name) for name in columns]
    line = 1
    blank: list[str] = []
    for line, cells in numbered:
        place = f"{path}: line {line}"
        if not "".join(cells).strip() and len(cells) < 2:
            blank.append(place)
            continue
        for before in blank if len(header) == 1 else ():
            input_errors.add(before, f"`{header[0]}` is empty.")
        blank = []
        if len(cells) != len(header):
            input_errors.add(place, f"expected {len(header)} columns. Received: {len(cells)}")
            continue
        yield place, tuple(cells[index] for index in indices)
    if line == 1:
        raise ValueError(f"{path}: no rows after the header.")


def _index(path: Path, header: Sequence[str], name: str) -> int:
    if header.count(name) != 1:
        fault = f"no column `{name}`" if name not in header else f"column `{name}` occurs {header.count(name)} times"
        raise ValueError(
            f"{path}: line 1: {fault}. Received: {header}. Name the columns with --text_columns and --label_column."
        )
    return header.index(name)


def _tsv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines_of(path):
        yield number, line.split("\t")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields each row with the number of its first line."""
    csv.field_size_limit(_LONGEST_CELL)
    with path.open("rb") as file:
        # Lines keep their line ends, which are text inside quotes.
        reader = csv.reader((_decoded(path, number, line) for number, line in enumerate(file, start=1)), strict=True)
        while True:
            begin = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{path}: line {begin}: not CSV: {error}") from error
            yield begin, cells


def _objects(path: Path, keys: Sequence[str], input_errors: InputErrors) -> Iterator[Row]:
    """Yields the rows of JSON lines."""
    line = None
    for number, line in lines_of(path):
        place = f"{path}: line {number}"
        if not line.strip():
            continue
        try:
            values = parse_json(line)
        except ValueError as error:
            input_errors.add(place, f"not JSON: {error}")
            continue
        if not isinstance(values, dict):
            input_errors.add(place, f"must be a JSON object. Received: {line[:80]}")
            continue
        faults = [_fault(values, key) for key in keys]
        if any(faults):
            input_errors.add(place, next(filter(None, faults)))
            continue
        yield place, tuple(_cell(values[key]) for key in keys)
    if line is None:
        raise ValueError(f"{path}: no lines.")


def _fault(values: dict[str, Any], key: str) -> str:
    if key not in values:
        return f"no key `{key}`. Received: {sorted(values)}"
    if not isinstance(values[key], str | int | float):
        return f"`{key}` must be a string or a number. Received: {json.dumps(values[key])[:80]}"
    return ""


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else json.dumps(value)
