"""GLUE's file formats (arXiv 1804.07461): published examples, and predictions for the leaderboard.

Both are tab-separated without quoting: a quote is an ordinary character.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bert_tf.config.files import staged_file
from bert_tf.encoding.texts import TextExample
from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.input_errors import InputErrors

PREDICTIONS_HEADER = ("index", "prediction")

Value = TypeVar("Value")


@dataclass(frozen=True)
class Layout:
    """Columns of a task's files.

    `key` names the index column for predictions; without one, rows are counted from 0. `headerless` has the column
    names of files without a header line; () if all files have one. `aliases` are alternative column names.
    """

    label: str = "label"
    key: str = "index"
    headerless: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


def read_glue(
    path: Path, layout: Layout, texts: Sequence[str], input_errors: InputErrors, labelled: bool
) -> Iterator[TextExample]:
    """Yields examples of the columns `texts`; labels are as in the file, or None unless `labelled`.

    The file is UTF-8, with or without a byte order mark, with lines terminated by LF or CRLF. Rows of another width,
    empty labels and their texts, and duplicate indices are added to `input_errors`. Texts without labels may be empty,
    because the leaderboard expects a prediction for every row. Raises ValueError, with file and line, for a missing
    column, an empty file, and bytes that are not UTF-8.
    """
    lines = lines_of(path)
    _, first = next(lines, (1, ""))
    header, before = [layout.aliases.get(name, name) for name in first.split("\t")], 2
    if len(header) == len(layout.headerless) and layout.key not in header:
        header, before, lines = list(layout.headerless), 1, itertools.chain([(1, first)], lines)
    wanted = [*texts, layout.label] if labelled else list(texts)
    for name in wanted:
        if name not in header:
            raise ValueError(f"{path}: line 1: no column `{name}`. Received: {header}")
    seen: dict[str, int] = {}
    line = 0
    for line, text in lines:
        place, cells = f"{path}: line {line}", text.split("\t")
        if len(cells) != len(header):
            input_errors.add(place, f"expected {len(header)} columns. Received: {len(cells)}")
            continue
        row = dict(zip(header, cells, strict=True))
        key = row.get(layout.key, str(line - before))
        fault = _fault(row, wanted if labelled else (), key, seen)
        if fault:
            input_errors.add(place, fault)
            continue
        seen[key] = line
        yield TextExample(place, tuple(row[name] for name in texts), row[layout.label] if labelled else None, key)
    if not line:
        raise ValueError(f"{path}: no rows.")


def _fault(row: Mapping[str, str], wanted: Iterable[str], key: str, seen: Mapping[str, int]) -> str:
    empty = [name for name in wanted if not row[name].strip()]
    if empty:
        return f"`{empty[0]}` is empty."
    return f"the index must be unique. Received: {key}, also in line {seen[key]}" if key in seen else ""


def write_predictions(path: Path, predictions: Iterable[tuple[str, str]]) -> None:
    """Writes index and prediction of each example under the leaderboard's header, atomically."""
    with staged_file(path) as file:
        file.write(("\t".join(PREDICTIONS_HEADER) + "\n").encode())
        for key, prediction in predictions:
            file.write(f"{key}\t{prediction}\n".encode())


def read_predictions(path: Path, value: Callable[[str], Value]) -> Iterator[tuple[int, str, Value]]:
    """Yields line, index and prediction of leaderboard predictions of `write_predictions` or any other program.

    `value` parses a prediction, or raises ValueError. Raises ValueError for another header or width, and for an invalid
    prediction, with file and line.
    """
    lines = lines_of(path)
    _, header = next(lines, (1, ""))
    if tuple(header.split("\t")) != PREDICTIONS_HEADER:
        raise ValueError(f"{path}: line 1: must be `index`, a tab, `prediction`. Received: {header!r}")
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(PREDICTIONS_HEADER):
            raise ValueError(f"{path}: line {number}: expected 2 columns. Received: {len(cells)}")
        try:
            yield number, cells[0], value(cells[1])
        except ValueError as error:
            raise ValueError(f"{path}: line {number}: {error}") from error


def predictions_of(path: Path, examples: Sequence[TextExample], value: Callable[[str], Value]) -> list[Value]:
    """Returns the predictions of a file in the order of the examples.

    Raises ValueError as `read_predictions`, for a duplicate or unknown index, and for an example without a prediction.
    """
    known = {example.key for example in examples}
    predictions: dict[str, Value] = {}
    for line, key, prediction in read_predictions(path, value):
        if key not in known or key in predictions:
            fault = "must not occur twice" if key in predictions else "must be the index of an example"
            raise ValueError(f"{path}: line {line}: the index {fault}. Received: {key!r}")
        predictions[key] = prediction
    for example in examples:
        if example.key not in predictions:
            raise ValueError(f"{path}: no prediction for index {example.key} ({example.place}).")
    return [predictions[example.key] for example in examples]
