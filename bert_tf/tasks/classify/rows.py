"""Rows of one or two texts: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut to what a row holds or read in windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import BertTokenizer, RaggedIds

# Rows that are padded at once while they are packed.
_PART = 4096
# What neighbouring windows have in common at least, as a share of a window.
_OVERLAP = 0.25


@dataclass(frozen=True)
class TextExample:
    """One or two texts.

    Args:
        place: file and line.
        texts: one or two.
        label: the right one, a number as the file has it; None where it is not known.
        key: what predictions name the example by, where their format does.
    """

    place: str
    texts: tuple[str, ...]
    label: str | None = None
    key: str = ""


def text_rows(
    examples: Sequence[TextExample], tokenizer: BertTokenizer, length: int, windows: bool = False
) -> EncodedRows:
    """Returns the rows of texts, without targets.

    Args:
        examples: all of one text, or all of two.
        tokenizer: the preset's.
        length: tokens of a row at most. What is longer loses tokens from the end of its longer text.
        windows: whether to make several rows of what is longer instead: windows of its longer text, the first of
            equally long ones, which overlap by a quarter at least and cover all of it. The other text is in each of
            them, cut to half of a row.
    """
    columns = [tokenizer.tokenize([example.texts[n] for example in examples]) for n in range(_width(examples))]
    begins = np.stack([column.row_splits[:-1] for column in columns])
    ends = np.stack([column.row_splits[1:] for column in columns])
    rows = np.arange(len(examples))
    if windows:
        begins, ends, rows = _windows(begins, ends, length - 1 - len(columns))
    parts = [
        _packed(columns, begins[:, first : first + _PART], ends[:, first : first + _PART], tokenizer, length)
        for first in range(0, len(rows), _PART)
    ]
    token_ids, lengths, first_lengths = (
        np.concatenate([np.zeros(0, np.int32), *arrays]) for arrays in zip(*parts, strict=True)
    )
    return EncodedRows(
        token_ids=token_ids,
        row_splits=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        first_lengths=first_lengths,
        pad_id=tokenizer.vocabulary.pad_id,
        examples=rows,
    )


def mean_of_windows(values: np.ndarray, rows: EncodedRows, examples: int) -> np.ndarray:
    """Returns for each example the mean of its rows' values: float64 (examples, ...) of (N, ...)."""
    sums = np.zeros((examples, *values.shape[1:]))
    np.add.at(sums, rows.examples, values)
    counts = np.bincount(rows.examples, minlength=examples)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def _width(examples: Sequence[TextExample]) -> int:
    return len(examples[0].texts)


def _packed(
    columns: Sequence[RaggedIds], begins: np.ndarray, ends: np.ndarray, tokenizer: BertTokenizer, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the tokens of rows, how many each has and how many of these are its first segment's, all int32."""
    segments = [_sliced(*arguments) for arguments in zip(columns, begins, ends, strict=True)]
    packed = {name: values.numpy() for name, values in pack(segments, tokenizer.vocabulary, length).items()}
    there = packed["padding_mask"] == 1
    first = there & (packed["segment_ids"] == 0)
    return packed["token_ids"][there], there.sum(axis=1, dtype=np.int32), first.sum(axis=1, dtype=np.int32)


def _sliced(column: RaggedIds, begins: np.ndarray, ends: np.ndarray) -> tf.RaggedTensor:
    splits = np.concatenate([[0], np.cumsum(ends - begins)])
    places = np.arange(splits[-1]) + np.repeat(begins - splits[:-1], ends - begins)
    return tf.RaggedTensor.from_row_splits(column.values[places], splits)


def _windows(begins: np.ndarray, ends: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns begins and ends, (columns, rows), and the example of every row, of texts read in windows of `room`."""
    cuts: list[tuple[int, np.ndarray, np.ndarray]] = []
    for number, (begin, end) in enumerate(zip(begins.T, ends.T, strict=True)):
        if (end - begin).sum() <= room:
            cuts.append((number, begin, end))
        else:
            cuts.extend((number, *window) for window in _windows_of(begin, end, room))
    rows, window_begins, window_ends = zip(*cuts, strict=True)
    return np.stack(window_begins, axis=1), np.stack(window_ends, axis=1), np.array(rows, np.int64)


def _windows_of(begin: np.ndarray, end: np.ndarray, room: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields begins and ends, (columns,), of the windows of one example."""
    lengths = end - begin
    longer = int(lengths.argmax())
    kept = np.minimum(lengths, room // 2)
    width = room - (kept.sum() - kept[longer])
    beyond = int(lengths[longer] - width)
    count = 1 + -(-beyond // max(1, int(width * (1 - _OVERLAP))))
    for first in np.linspace(0, beyond, count).round().astype(np.int64):
        starts, stops = begin.copy(), begin + kept
        starts[longer] = begin[longer] + first
        stops[longer] = starts[longer] + width
        yield starts, stops
