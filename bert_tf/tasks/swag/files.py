"""CSV files with SWAG's header: a beginning and several endings in each row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from bert_tf.encoding.choices import CONTEXT, ENDING, START, ChoiceExample, ending_columns
from bert_tf.tasks.input_errors import InputErrors

LABEL = "label"
# Columns of predictions, as in the program of SWAG's authors (rowanz/swagaf, csv_predict.py): the index has no name.
INDEX, PREDICTION = "", "pred"
# Some texts are longer than the csv module's default limit.
_LONGEST_CELL = 1 << 30


def read_choices(path: Path, input_errors: InputErrors, labelled: bool, choices: int = 0) -> Iterator[ChoiceExample]:
    """Yields examples of a UTF-8 file one by one; `choices` of 0 accepts the number of endings in the header.

    Rows of another width, empty endings, rows without a beginning, and invalid labels are added to `input_errors`.
    Raises ValueError, with file and line, for an empty file, a missing column, fewer than two endings or another number
    than `choices`, and bytes that are not UTF-8.
    """
    rows = _rows(path, input_errors)
    _, header = next(rows, (1, []))
    endings = ending_columns(header)
    wanted = (CONTEXT, START, *(endings or (f"{ENDING}0",)), *([LABEL] if labelled else []))
    for name in wanted:
        if name not in header:
            raise ValueError(f"{path}: line 1: no column `{name}`. Received: {header}")
    if len(endings) < 2 or (choices and len(endings) != choices):
        expected = f"{choices} endings, as in training" if choices else "at least two endings"
        raise ValueError(f"{path}: line 1: there must be {expected}. Received: {', '.join(endings)}")
    for number, (line, cells) in enumerate(rows):
        place = f"{path}: line {line}"
        if len(cells) != len(header):
            input_errors.add(place, f"expected {len(header)} columns. Received: {len(cells)}")
            continue
        row = dict(zip(header, cells, strict=True))
        fault = _fault(row, endings, labelled)
        if fault:
            input_errors.add(place, fault)
            continue
        texts = tuple(row[name] for name in endings)
        label = int(row[LABEL]) if labelled else None
        yield ChoiceExample(place, number, row[CONTEXT], row[START], texts, label)


def read_predictions(path: Path, examples: Sequence[ChoiceExample]) -> list[int]:
    """Reads the number of the predicted ending for each example of the gold file, from the column `pred`.

    A column without a name is the index of the example's row. Raises ValueError, with file and line, for a prediction
    that is missing, duplicate, of an unknown example, or not an ending.
    """
    rows = _rows(path, InputErrors())
    _, header = next(rows, (1, []))
    if PREDICTION not in header:
        raise ValueError(f"{path}: line 1: no column `{PREDICTION}`. Received: {header}")
    endings = {str(example.number): len(example.endings) for example in examples}
    order = iter(endings)
    predictions: dict[str, int] = {}
    for line, cells in rows:
        row = dict(zip(header, cells, strict=False))
        index = row[INDEX] if INDEX in row else next(order, "")
        place = f"{path}: line {line}"
        if index not in endings or index in predictions:
            raise ValueError(f"{place}: must be the one prediction for one of {len(endings)} rows. Received: {cells}")
        choice = row.get(PREDICTION, "").strip()
        if choice not in map(str, range(endings[index])):
            raise ValueError(f"{place}: `{PREDICTION}` must be in [0, {endings[index]}). Received: {choice!r}")
        predictions[index] = int(choice)
    missing = [index for index in endings if index not in predictions]
    if missing:
        raise ValueError(f"{path}: there must be a prediction for every row. Received: none for row {missing[0]}")
    return [predictions[index] for index in endings]


def _fault(row: dict[str, str], endings: Sequence[str], labelled: bool) -> str:
    """Returns the error message of a row; "" if the row is valid."""
    empty = [name for name in endings if not row[name].strip()]
    if empty:
        return f"`{empty[0]}` is empty."
    if not row[CONTEXT].strip() and not row[START].strip():
        return f"`{CONTEXT}` and `{START}` are both empty."
    numbers = [str(number) for number in range(len(endings))]
    if labelled and row[LABEL].strip() not in numbers:
        return f"`{LABEL}` must be one of {', '.join(numbers)}. Received: {row[LABEL]!r}"
    return ""


def _rows(path: Path, input_errors: InputErrors) -> Iterator[tuple[int, list[str]]]:
    """Yields first line number and cells of each row that is not blank; a cell may contain line breaks."""
    csv.field_size_limit(_LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                input_errors.add(f"{path}: line {line}", f"quotes must enclose whole cells and be closed: {error}.")
                continue
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}: not UTF-8, after line {line - 1}: {error}") from error
            if cells:
                yield line, cells
