"""Encodes plain text, one text on each line; texts longer than a row are split into several rows.

Shape legend: N rows, T tokens of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_tf.tasks.classify.files import lines_of
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.tokenizer import BertTokenizer


@dataclass(frozen=True)
class Line:
    """One text of a file, without its line break, at a `place`, file and line."""

    place: str
    text: str


@dataclass(frozen=True)
class Window:
    """The part of a text in one row.

    `first` is the text's word piece that follows [CLS]. `keep` has start and end (exclusive) of the row's tokens that
    have at least as much context on their shorter side as in any other row of the text.
    """

    first: int
    keep: tuple[int, int]


def read_lines(path: Path, input_errors: InputErrors) -> Iterator[Line]:
    """Yields one text from each line of a UTF-8 file; an empty line is an input error.

    Raises ValueError for bytes that are not UTF-8, and errors that `input_errors` does not skip, with file and line.
    """
    for number, text in lines_of(path):
        place = f"{path}: line {number}"
        if text.strip():
            yield Line(place, text.rstrip("\r"))
        else:
            input_errors.add(place, "a text must not be empty. Received: an empty line")


def windows(length: int, most: int) -> list[Window]:
    """Splits a text of `length` word pieces into windows of up to `most` (at least 2) that overlap by half."""
    stride = most // 2
    firsts = [0, *range(stride, length - most, stride), length - most] if length > most else [0]
    ends = [min(first + most, length) for first in firsts]
    # In the middle of an overlap, both rows have the same context.
    borders = [0, *((after + end + 1) // 2 for after, end in zip(firsts[1:], ends[:-1], strict=True)), length]
    return [
        Window(first, (borders[number] - first + 1, borders[number + 1] - first + 1))
        for number, first in enumerate(firsts)
    ]


def encode_lines(lines: Sequence[Line], tokenizer: BertTokenizer, length: int) -> tuple[EncodedRows, list[Window]]:
    """Encodes texts as rows of `[CLS] pieces [SEP]`, and returns the rows and the window of each row.

    Raises ValueError if `length`, the maximum tokens of a row, is less than 4.
    """
    if length < 4:
        raise ValueError(f"`max_sequence_length` must be at least 4. Received: {length}")
    ids, splits = tokenizer.tokenize([line.text for line in lines])
    vocabulary = tokenizer.vocabulary
    tokens, kept, examples = [], [], []
    for number in range(len(lines)):
        pieces = ids[splits[number] : splits[number + 1]]
        for window in windows(len(pieces), length - 2):
            part = pieces[window.first : window.first + length - 2]
            tokens.append(np.concatenate([[vocabulary.cls_id], part, [vocabulary.sep_id]]))
            kept.append(window)
            examples.append(number)
    lengths = np.array([len(row) for row in tokens], np.int64)
    rows = EncodedRows(
        token_ids=np.concatenate(tokens).astype(np.int32),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]),
        first_lengths=lengths.astype(np.int32),
        pad_id=vocabulary.pad_id,
        examples=np.array(examples, np.int64),
    )
    return rows, kept
