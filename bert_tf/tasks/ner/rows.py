"""Rows of sentences that are split into words: each word is predicted once, with as much around it as fits.

Shape legend: T tokens of all rows, W words of all sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.ner.files import Sentence
from bert_tf.tasks.rows import EncodedRows
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.losses import SINGLE_OUTPUT

# [CLS] and [SEP].
_SPECIAL = 2


class Window(NamedTuple):
    """Words `start` to `end` (not included) make a row, of which `first` to `last` (not included) are predicted."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class _Pieces:
    """Word pieces of words, one after the other.

    Args:
        ids: int32.
        offsets: int64, as many as the words and one: where each begins, and the end.
    """

    ids: np.ndarray
    offsets: np.ndarray


def word_rows(
    sentences: Sequence[Sentence], tokenizer: BertTokenizer, length: int, targets: np.ndarray | None = None
) -> EncodedRows:
    """Returns `[CLS] words [SEP]` of every sentence, filled up with the words around it in its document.

    A sentence that is too long gives several rows. The first piece of a word stands for it: it alone has weight, in one
    of the rows. A word that normalization leaves nothing of is [UNK]; of one longer than a row, the first pieces are
    kept.

    Args:
        sentences: those of a document in order.
        tokenizer: the preset's.
        length: tokens of a row at most.
        targets: int32 (W,), the class of every word; None gives rows without targets.

    Returns:
        The rows; tokens of weight 1 are the words, in order.

    Raises:
        ValueError: for a length that has no room for a piece.
    """
    capacity = length - _SPECIAL
    if capacity < 1:
        raise ValueError(f"`max_seq_length` must be at least {_SPECIAL + 1} for words. Received: {length}")
    words, spans = _laid_out(sentences, capacity)
    pieces = _pieces(words, tokenizer, capacity)
    rows = [
        (number, window)
        for number, (first, last, begin, end) in enumerate(spans)
        for window in windows(pieces.offsets, first, last, begin, end, capacity)
    ]
    token_ids, row_splits, weights = _joined([window for _, window in rows], pieces, tokenizer)
    given = {}
    if targets is not None:
        given[SINGLE_OUTPUT] = np.zeros(len(token_ids), np.int32)
        given[SINGLE_OUTPUT][weights > 0] = targets
    return EncodedRows(
        token_ids=token_ids,
        row_splits=row_splits,
        first_lengths=np.diff(row_splits).astype(np.int32),
        pad_id=tokenizer.vocabulary.pad_id,
        targets=given,
        weights={SINGLE_OUTPUT: weights},
        examples=np.array([number for number, _ in rows], np.int64),
    )


def windows(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> Iterator[Window]:
    """Yields the rows of a sentence.

    Args:
        offsets: int (words + 1,), where the pieces of every word begin; no word has none, or more than `capacity`.
        first: its first word.
        last: the word after its last one.
        begin: the first word of its document.
        end: the word after its document's last one.
        capacity: pieces of a row.

    Yields:
        One row with the sentence in the middle; or, where it does not fit, rows of it that overlap by half, each word
        predicted where the nearer edge is farthest.
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
        # The last row reaches back as far as it can.
        starts.append(start if ends[-1] < last else int(np.searchsorted(offsets, offsets[last] - capacity)))
    middles = [(offsets[start] + offsets[stop]) / 2 for start, stop in zip(starts[1:], ends, strict=False)]
    cuts = [first, *(int(cut) for cut in np.searchsorted(offsets, middles)), last]
    for start, stop, (one, other) in zip(starts, ends, itertools.pairwise(cuts), strict=True):
        # Long words may leave a row that has the best place for none of its own.
        if one < other:
            yield Window(start, stop, one, other)


def _fitting(offsets: np.ndarray, start: int, capacity: int) -> int:
    """Returns the word after the last one that fits into a row from `start`."""
    return int(np.searchsorted(offsets, offsets[start] + capacity, side="right")) - 1


def _filled(offsets: np.ndarray, first: int, last: int, begin: int, end: int, capacity: int) -> tuple[int, int]:
    """Returns the words of a row around `first` to `last`: as much on either side, or more where one has none."""
    left = (capacity - (offsets[last] - offsets[first])) // 2
    start = max(begin, int(np.searchsorted(offsets, offsets[first] - left)))
    stop = min(end, _fitting(offsets, start, capacity))
    # What the right side has no use for is the left's.
    return max(begin, int(np.searchsorted(offsets, offsets[stop] - capacity))), stop


def _laid_out(sentences: Sequence[Sentence], reach: int) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    """Returns words, and for each sentence where it begins and ends among them, and where its document does.

    Of a document, only sentences within `reach` words of those asked for are taken.
    """
    words: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    for _, group in itertools.groupby(sentences, key=lambda sentence: id(sentence.document)):
        asked = list(group)
        document = asked[0].document
        begin = _back(document, asked[0].number, reach)
        end = len(document) - _back(document[::-1], len(document) - 1 - asked[-1].number, reach)
        splits = len(words) + np.cumsum([0, *(len(sentence) for sentence in document[begin:end])])
        words += itertools.chain.from_iterable(document[begin:end])
        spans += [
            (
                int(splits[sentence.number - begin]),
                int(splits[sentence.number - begin + 1]),
                int(splits[0]),
                int(splits[-1]),
            )
            for sentence in asked
        ]
    return words, spans


def _back(document: Sequence[Sequence[str]], number: int, reach: int) -> int:
    """Returns the first sentence that is needed for `reach` words before sentence `number`."""
    while number > 0 and reach > 0:
        number -= 1
        reach -= len(document[number])
    return number


def _pieces(words: Sequence[str], tokenizer: BertTokenizer, most: int) -> _Pieces:
    """Returns the pieces of each word, at least one and at most `most`; each different word is tokenized once."""
    numbers: dict[str, int] = {}
    index = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)
    ids, splits = tokenizer.tokenize(list(numbers))
    counts = np.diff(splits)
    # [UNK] stands after all pieces, for the words that have none.
    begins = np.where(counts > 0, splits[:-1], len(ids))[index]
    lengths = np.clip(counts, 1, most)[index]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
    return _Pieces(np.append(ids, tokenizer.vocabulary.unk_id).astype(np.int32)[places], offsets)


def _joined(rows: Sequence[Window], pieces: _Pieces, tokenizer: BertTokenizer) -> tuple[np.ndarray, ...]:
    """Returns the ids of all rows, where each begins, and the weight of every token."""
    offsets = pieces.offsets
    lengths = [int(offsets[row.end] - offsets[row.start]) + _SPECIAL for row in rows]
    splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    ids = np.full(splits[-1], tokenizer.vocabulary.sep_id, np.int32)
    weights = np.zeros(splits[-1], np.float32)
    ids[splits[:-1]] = tokenizer.vocabulary.cls_id
    for begin, stop, row in zip(splits[:-1] + 1, splits[1:] - 1, rows, strict=True):
        ids[begin:stop] = pieces.ids[offsets[row.start] : offsets[row.end]]
        weights[begin + offsets[row.first : row.last] - offsets[row.start]] = 1.0
    return ids, splits, weights
