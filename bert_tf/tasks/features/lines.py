"""Plain text, one a line, as rows of the encoder: a text that is longer than a row goes into several.

Shape legend: N rows, T tokens of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.tokenizer import BertTokenizer


@dataclass(frozen=True)
class Line:
    """One text.

    Args:
        place: file and line.
        text: without its line break.
    """

    place: str
    text: str


@dataclass(frozen=True)
class Window:
    """What a row holds of its text.

    Args:
        first: number of the text's word piece that follows [CLS].
        keep: tokens of the row, from the first of the pair to the one before the second, that no other row of the text
            sees with more context on its shorter side.
    """

    first: int
    keep: tuple[int, int]


def read_lines(path: Path, input_errors: InputErrors) -> Iterator[Line]:
    """Reads a text a line; an empty one is a fault.

    Raises:
        ValueError: naming file and line, for bytes that are not UTF-8, and for what `problems` does not skip.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path}: line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{place}: not UTF-8: {error}") from error
            if text.strip():
                yield Line(place, text)
            else:
                input_errors.add(place, "a text must not be empty. Received: an empty line")


def windows(length: int, most: int) -> list[Window]:
    """Returns how a text goes into rows, each of which overlaps with the next by half.

    Args:
        length: word pieces of the text.
        most: word pieces of a row, at least 2.
    """
    stride = most // 2
    firsts = [0, *range(stride, length - most, stride), length - most] if length > most else [0]
    ends = [min(first + most, length) for first in firsts]
    # The middle of what two rows share is where the one has as much context as the other.
    borders = [0, *((after + end + 1) // 2 for after, end in zip(firsts[1:], ends[:-1], strict=True)), length]
    return [
        Window(first, (borders[number] - first + 1, borders[number + 1] - first + 1))
        for number, first in enumerate(firsts)
    ]


def encode_lines(lines: Sequence[Line], tokenizer: BertTokenizer, length: int) -> tuple[EncodedRows, list[Window]]:
    """Returns rows of `[CLS] pieces [SEP]`, and what each holds of its text.

    Args:
        lines: texts.
        tokenizer: the preset's.
        length: tokens of a row, at least 4.

    Raises:
        ValueError: for fewer tokens of a row.
    """
    if length < 4:
        raise ValueError(f"`max_seq_length` must be at least 4. Received: {length}")
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
