"""Encodes sentences of words as rows; each word is predicted once, with as much context as fits.

Shape legend: T tokens of all rows, W words of all sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.ner.files import Sentence
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.training.losses import SINGLE_OUTPUT

# [CLS] and [SEP].
_SPECIAL = 2


class Window(NamedTuple):
    """A row of words `start` to `end` (exclusive), in which `first` to `last` (exclusive) are predicted."""

    start: int
    end: int
    first: int
    last: int


def word_rows(
    sentences: Sequence[Sentence], tokenizer: TextTokenizer, length: int, targets: np.ndarray | None = None
) -> EncodedRows:
    """Encodes each sentence as `[CLS] words [SEP]`, filled up with context words of its document.

    A sentence that is too long is split into several rows. A word is predicted at its first piece, which has weight 1
    in exactly one row; all other tokens have weight 0. A word that normalization removes becomes [UNK]; a word longer
    than a row keeps its first pieces.

    Sentences of a document are consecutive and in order. `targets` has the class of each word, int32 (W,); tokens of
    weight 1 are the words, in order. Raises ValueError if `length`, the maximum tokens of a row, has no room for a
    piece.
    """
    capacity = length - _SPECIAL
    if capacity < 1:
        raise ValueError(f"`max_sequence_length` must be at least {_SPECIAL + 1} for words. Received: {length}")
    words, spans = _laid_out(sentences, capacity)
    pieces, offsets = _pieces(words, tokenizer, capacity)
    rows = [
        (number, window)
        for number, (first, last, begin, end) in enumerate(spans)
        for window in windows(offsets, first, last, begin, end, capacity)
    ]
    token_ids, row_splits, weights = _joined([window for _, window in rows], pieces, offsets, tokenizer)
    token_targets = {}
    if targets is not None:
        token_targets[SINGLE_OUTPUT] = np.zeros(len(token_ids), np.int32)
        token_targets[SINGLE_OUTPUT][weights > 0] = targets
    return EncodedRows(
        token_ids=token_ids,
        row_splits=row_splits,
        first_lengths=np.diff(row_splits).astype(np.int32),
        pad_id=tokenizer.vocabulary.pad_id,
        targets=token_targets,
        weights={SINGLE_OUTPUT: weights},
        examples=np.array([number for number, _ in rows], np.int64),
    )


def windows(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> Iterator[Window]:
    """Yields the rows of the sentence of words `first` to `last` in a document of words `begin` to `end` (exclusive).

    This is one row with the sentence in the middle. If the sentence does not fit: rows that overlap by half, with each
    word predicted in the row where it is farthest from the nearer edge. `offsets`, (words + 1,), are the start offsets
    of the words' pieces; each word has 1 to `capacity` pieces, the maximum of a row.
    """
    if offsets[last] - offsets[first] <= capacity:
        start, stop = _filled(offsets, first, last, begin, end, capacity)
        yield Window(start, stop, first, last)
        return
    starts, ends = [first], [_fitting(offsets, first, capacity)]
    while ends[-1] < last:
        half = int(np.searchsorted(offsets, offsets[starts[-1]] + capacity / 2))
        start = max(starts[-1] + 1, min(half, ends[-1]))
        ends.append(min(last, _fitting(offsets, start, capacity)))
        # The last row extends back as far as it can.
        starts.append(start if ends[-1] < last else int(np.searchsorted(offsets, offsets[last] - capacity)))
    middles = [(offsets[start] + offsets[stop]) / 2 for start, stop in zip(starts[1:], ends, strict=False)]
    cuts = [first, *(int(cut) for cut in np.searchsorted(offsets, middles)), last]
    for start, stop, (one, other) in zip(starts, ends, itertools.pairwise(cuts), strict=True):
        # With long words, a row may be the best one for none of its words.
        if one < other:
            yield Window(start, stop, one, other)


def _fitting(offsets: np.ndarray, start: int, capacity: int) -> int:
    """Returns the end (exclusive) of the words that fit into a row from `start`."""
    return int(np.searchsorted(offsets, offsets[start] + capacity, side="right")) - 1


def _filled(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> tuple[int, int]:
    """Returns the words of a row around `first` to `last`, with equal context on both sides where possible."""
    left = (capacity - (offsets[last] - offsets[first])) // 2
    start = max(begin, int(np.searchsorted(offsets, offsets[first] - left)))
    stop = min(end, _fitting(offsets, start, capacity))
    # Room that the right side does not need goes to the left side.
    return max(begin, int(np.searchsorted(offsets, offsets[stop] - capacity))), stop


def _laid_out(sentences: Sequence[Sentence], reach: int) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    """Returns the words, and the bounds of each sentence and of its document among them.

    Only sentences of the document within `reach` words of the requested ones are included.
    """
    words: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    for _, group in itertools.groupby(sentences, key=lambda sentence: id(sentence.document)):
        requested = list(group)
        document = requested[0].document
        begin = _back(document, requested[0].number, reach)
        end = len(document) - _back(document[::-1], len(document) - 1 - requested[-1].number, reach)
        splits = len(words) + np.cumsum([0, *(len(sentence) for sentence in document[begin:end])])
        words += itertools.chain.from_iterable(document[begin:end])
        spans += [
            (
                int(splits[sentence.number - begin]),
                int(splits[sentence.number - begin + 1]),
                int(splits[0]),
                int(splits[-1]),
            )
            for sentence in requested
        ]
    return words, spans


def _back(document: Sequence[Sequence[str]], number: int, reach: int) -> int:
    """Returns the first sentence that is within `reach` words before sentence `number`."""
    while number > 0 and reach > 0:
        number -= 1
        reach -= len(document[number])
    return number


def _pieces(words: Sequence[str], tokenizer: TextTokenizer, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pieces of all words, 1 to `most` each, int32, and the start offset of each word, and the end."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)
    ids, splits = tokenizer.tokenize_words(list(numbers))
    counts = np.diff(splits)
    # [UNK] is appended after all pieces, for words without pieces.
    begins = np.where(counts > 0, splits[:-1], len(ids))[index]
    lengths = np.clip(counts, 1, most)[index]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return np.append(ids, tokenizer.vocabulary.unk_id).astype(np.int32)[places], offsets


def _joined(
    rows: Sequence[Window], pieces: np.ndarray, offsets: np.ndarray, tokenizer: TextTokenizer
) -> tuple[np.ndarray, ...]:
    """Returns token ids, row splits and token weights of all rows."""
    lengths = [int(offsets[row.end] - offsets[row.start]) + _SPECIAL for row in rows]
    splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    ids = np.full(splits[-1], tokenizer.vocabulary.sep_id, np.int32)
    weights = np.zeros(splits[-1], np.float32)
    ids[splits[:-1]] = tokenizer.vocabulary.cls_id
    for begin, stop, row in zip(splits[:-1] + 1, splits[1:] - 1, rows, strict=True):
        ids[begin:stop] = pieces[offsets[row.start] : offsets[row.end]]
        weights[begin + offsets[row.first : row.last] - offsets[row.start]] = 1.0
    return ids, splits, weights
