"""Labelled text in tab-separated files: reading it, and the label set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LabelledText:
    """Rows of a labelled file: `columns` holds one tuple of texts for each text column."""

    columns: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def read_tsv(path: Path, text_columns: Sequence[str], label_column: str) -> LabelledText:
    """Reads a tab-separated file with a header line; quotes are ordinary characters, as in GLUE's files.

    Args:
        path: the file, UTF-8, with or without a byte order mark.
        text_columns: one or two names from the header.
        label_column: the name of the label's column.

    Raises:
        ValueError: naming file and line, for an empty file, a missing column, a row of another width, an empty
            text or label, or bytes that are not UTF-8.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from error
    header = lines[0].split("\t")
    wanted = [*text_columns, label_column]
    for name in wanted:
        if name not in header:
            raise ValueError(f"{path}: line 1: no column `{name}`. Received: {header}")
    indices = [header.index(name) for name in wanted]
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise ValueError(f"{path}: line {number}: expected {len(header)} columns. Received: {len(cells)}")
        row = tuple(cells[index] for index in indices)
        for name, cell in zip(wanted, row, strict=True):
            if not cell.strip():
                raise ValueError(f"{path}: line {number}: `{name}` is empty.")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: no rows after the header.")
    *columns, labels = zip(*rows, strict=True)
    return LabelledText(tuple(columns), tuple(labels))


def label_ids(rows: LabelledText, labels: Sequence[str], path: Path) -> list[int]:
    """Returns the index of every row's label in `labels`.

    Raises:
        ValueError: naming file and line, for a label that is not among them.
    """
    index = {label: position for position, label in enumerate(labels)}
    for number, label in enumerate(rows.labels, start=2):
        if label not in index:
            raise ValueError(
                f"{path}: line {number}: label {label!r} never occurs in training; known: {', '.join(labels)}"
            )
    return [index[label] for label in rows.labels]
