"""Chooses whole words, or spans of words, to mask.

A word is a piece without `##` and the `##` pieces that follow it. Special tokens are not part of any word. A `##` piece
after a special token (in a segment that was cut within a word) starts a word.

- `whole_word` ("Whole Word Masking", May 2019, in the README of github.com/google-research/bert): words are visited in
  random order. A word is taken if all its pieces fit into the remaining predictions, else it is skipped.
- `span` (n-gram masking, arXiv 1909.11942, section 3.1): every word starts a span of n words, where n is drawn from 1
  to `max_ngram` with probability proportional to 1/n. Spans are visited in random order. Each is cut before the first
  special token and before the first word that does not fit into the remaining predictions. It is skipped if it is then
  empty or if one of its words is already taken. With a `max_ngram` of 1 this equals `whole_word`.

Words are therefore never masked partially. Fewer tokens than requested are masked only if every word left is longer
than the remaining predictions or, with spans, overlaps a taken span. This is rare because most words are one piece.

Order and span length are drawn from the score of a word's first position: words are sorted by the upper bits, and the
lower 32 bits draw the length of the span. `tf_words` is the implementation on tensors.
"""

from __future__ import annotations

import numpy as np

from bert_tf.config.data import DataConfig


def span_limits(config: DataConfig) -> np.ndarray:
    """Returns the thresholds in [0, 2**32) from which a span has a second, a third, ... word: int64 [L - 1], ascending.

    L is the maximum number of words in a span. It is at most P, because a longer span never fits.
    """
    longest = config.max_ngram if config.mask_unit == "span" else 1
    cumulative = np.cumsum(1.0 / np.arange(1, longest + 1))
    limits = np.floor(2.0**32 * cumulative[:-1] / cumulative[-1]).astype(np.int64)
    return limits[: config.max_predictions_per_seq - 1]


def position_bits(width: int) -> int:
    """Returns the number of low bits of a score replaced by the position, which makes the order of words unique."""
    return (width - 1).bit_length()


def choose_words(
    candidates: np.ndarray, continues: np.ndarray, scores: np.ndarray, counts: np.ndarray, config: DataConfig
) -> np.ndarray:
    """Chooses words in every row: True for the tokens to predict, at most `counts` per row, bool [n, S].

    `candidates` is bool [n, S], True for tokens that are not special; `continues` bool [n, S], True for pieces that
    continue a word; `scores` uint64 [n, S], random and modified in place; `counts` int64 [n], requested predictions, at
    least 1.
    """
    width = candidates.shape[1]
    words = _Words(candidates, continues)
    low = np.uint64(2 ** position_bits(width) - 1)
    scores &= ~low
    scores |= np.arange(width, dtype=np.uint64)
    order = np.where(words.starts, scores, np.uint64(0xFFFFFFFFFFFFFFFF))
    order.sort(axis=1)
    limits = span_limits(config).astype(np.uint64)
    numbers = np.count_nonzero(words.starts, axis=1)
    left = counts.copy()
    rows = np.flatnonzero(numbers)
    step = 0
    while rows.size:
        draws = order[rows, step]
        lengths = 1 + np.searchsorted(limits, draws & np.uint64(0xFFFFFFFF), side="right")
        left[rows] -= words.take(rows, (draws & low).astype(np.int64), lengths, left[rows])
        step += 1
        rows = rows[(left[rows] > 0) & (numbers[rows] > step)]
    return words.taken()


class _Words:
    """The words of many rows and their state (taken or not).

    Words and tokens outside words are numbered consecutively over all rows. Each row has an extra token at its end
    that is outside any word.
    """

    def __init__(self, candidates: np.ndarray, continues: np.ndarray) -> None:
        rows, self._width = candidates.shape[0], candidates.shape[1] + 1
        inside = np.zeros((rows, self._width), np.bool_)
        np.logical_and(candidates[:, 1:] & candidates[:, :-1], continues[:, 1:], out=inside[:, 1:-1])
        self.starts = candidates & ~inside[:, :-1]
        begins = ~inside.ravel()
        self._begins = np.flatnonzero(begins)
        self._number = np.cumsum(begins, dtype=np.int32) - 1
        is_start = np.zeros((rows, self._width), np.bool_)
        is_start[:, :-1] = self.starts
        self._is_word = is_start.ravel().take(self._begins)
        self._is_taken = np.zeros(len(self._begins), np.bool_)

    def take(self, rows: np.ndarray, positions: np.ndarray, lengths: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Takes one span per row if it is available, and returns the number of pieces taken: int64 [m].

        `rows` are m distinct rows, `positions` the starts of the first words of the spans, `lengths` their drawn
        numbers of words, and `left` the maximum numbers of pieces to take; all are int64 [m].
        """
        first = self._number.take(rows * self._width + positions).astype(np.int64)
        begin = self._begins.take(first)
        end, fits, free = begin, np.ones(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        words = np.zeros(len(rows), np.int64)
        for word in range(lengths.max()):
            # Clipped indices lie past the extra token of the last row, which is not a word, so they have no effect.
            after = self._begins.take(first + (word + 1), mode="clip")
            fits = fits & (lengths > word) & (after - begin <= left) & self._is_word.take(first + word, mode="clip")
            if not fits.any():
                break
            free &= ~(fits & self._is_taken.take(first + word, mode="clip"))
            words += fits
            end = np.where(fits, after, end)
        words *= free
        for word in range(words.max()):
            self._is_taken[first[words > word] + word] = True
        return (end - begin) * free

    def taken(self) -> np.ndarray:
        """Returns True for the tokens of taken words: bool [n, S]."""
        return self._is_taken.take(self._number).reshape(-1, self._width)[:, :-1]
