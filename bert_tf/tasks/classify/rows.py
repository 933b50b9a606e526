"""Encodes one or two texts as `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated or split into windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.packing import pack
from bert_tf.text.tokenizer import RaggedIds, TextTokenizer

# Number of rows that are padded and packed at once.
_PART = 4096
# Minimum overlap of neighbouring windows, as a share of a window.
_OVERLAP = 0.25


@dataclass(frozen=True)
class TextExample:
    """An example of one or two texts at a `place`, file and line.

    `label` is the gold label, or the gold number as text; None if unknown. `key` is the index of the example in files
    of predictions, if their format has one.
    """

    place: str
    texts: tuple[str, ...]
    label: str | None = None
    key: str = ""


def text_rows(
    examples: Sequence[TextExample], tokenizer: TextTokenizer, length: int, windows: bool = False
) -> EncodedRows:
    """Encodes texts, one or two for all examples, as rows of at most `length` tokens, without targets.

    Longer examples are truncated at the end of their longer text. With `windows` they are split into several rows
    instead: the longer text (the first of equally long ones) is covered by windows that overlap by at least a quarter,
    and each window also holds the other text, truncated to half of a row.
    """
    columns = [tokenizer.tokenize([example.texts[n] for example in examples]) for n in range(len(examples[0].texts))]
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
    """Returns the mean value of each example's rows: float64 (examples, ...) from (N, ...)."""
    sums = np.zeros((examples, *values.shape[1:]))
    np.add.at(sums, rows.examples, values)
    counts = np.bincount(rows.examples, minlength=examples)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def _packed(
    columns: Sequence[RaggedIds], begins: np.ndarray, ends: np.ndarray, tokenizer: TextTokenizer, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the tokens of rows, the length of each row and of its first segment, all int32."""
    segments = [_sliced(*arguments) for arguments in zip(columns, begins, ends, strict=True)]
    return unpadded(pack(segments, tokenizer.vocabulary, length))


def unpadded(packed: Mapping[str, tf.Tensor]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the tokens of packed rows, the length of each row and of its first segment, all int32."""
    token_ids, segment_ids, mask = (packed[name].numpy() for name in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK))
    first = (mask == 1) & (segment_ids == 0)
    return token_ids[mask == 1], mask.sum(axis=1, dtype=np.int32), first.sum(axis=1, dtype=np.int32)


def _sliced(column: RaggedIds, begins: np.ndarray, ends: np.ndarray) -> tf.RaggedTensor:
    splits = np.concatenate([[0], np.cumsum(ends - begins)])
    places = np.arange(splits[-1]) + np.repeat(begins - splits[:-1], ends - begins)
    return tf.RaggedTensor.from_row_splits(column.values[places], splits)


def _windows(begins: np.ndarray, ends: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Splits texts into windows of `room` tokens; returns begins and ends, (columns, rows), and each row's example."""
    cuts: list[tuple[int, np.ndarray, np.ndarray]] = []
    for number, (begin, end) in enumerate(zip(begins.T, ends.T, strict=True)):
        if (end - begin).sum() <= room:
            cuts.append((number, begin, end))
        else:
            cuts.extend((number, *window) for window in _windows_of(begin, end, room))
    rows, window_begins, window_ends = zip(*cuts, strict=True)
    return np.stack(window_begins, axis=1), np.stack(window_ends, axis=1), np.array(rows, np.int64)


def _windows_of(begin: np.ndarray, end: np.ndarray, room: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields begins and ends, (columns,), of each window of one example."""
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
