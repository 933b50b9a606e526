"""Chooses whole words, or spans of words, to mask.

A word is a piece that continues nothing and the pieces after it that continue it (`##`). Special tokens belong to no
word; a continuation after one (of a segment that was cut in the middle of a word) begins a word there.

- `whole_word` ("Whole Word Masking", May 2019, in the README of github.com/google-research/bert): words in a random
  order, each taken when it fits whole into what is left of the predictions asked for, else passed over.
- `span` (n-gram masking, arXiv 1909.11942, section 3.1): every word begins a span, whose length of n words is drawn
  from 1 to `max_ngram` with a probability proportional to 1/n. Spans come in a random order. Each is cut before the
  first special token and before the first word that does not fit into what is left. It is taken unless nothing of it
  remains or one of its words is taken already. With a `max_ngram` of 1 this is `whole_word`.

So no word is ever masked in part. Fewer tokens than asked for are masked only where each word that is not taken is
longer than the rest or, with spans, has a span that meets another: seldom, for words of one piece are many.

Both are drawn from the score of a word's first position: words come in ascending order of the upper bits, and the
lower 32 bits draw the length of the span. `tf_word_masking` does the same on tensors.
"""

from __future__ import annotations

import numpy as np

from bert_tf.config.data import DataConfig


def span_limits(config: DataConfig) -> np.ndarray:
    """Returns the draws in [0, 2**32) from which on a span has a second, a third, ... word.

    Args:
        config: what is masked together. A span of more words than may be predicted is never taken whole, so that
            there are at most P words to tell apart.

    Returns:
        int64 [L - 1], ascending; L is the most words that are masked together.
    """
    longest = config.max_ngram if config.mask_unit == "span" else 1
    cumulative = np.cumsum(1.0 / np.arange(1, longest + 1))
    limits = np.floor(2.0**32 * cumulative[:-1] / cumulative[-1]).astype(np.int64)
    return limits[: config.max_predictions_per_seq - 1]


def position_bits(width: int) -> int:
    """Returns how many low bits of a score give way to the position, so that no two words are equal in order."""
    return (width - 1).bit_length()


def choose_words(
    candidates: np.ndarray, continues: np.ndarray, scores: np.ndarray, counts: np.ndarray, config: DataConfig
) -> np.ndarray:
    """Chooses words in every row, see above.

    Args:
        candidates: bool [n, S], tokens that are not special.
        continues: bool [n, S], pieces that continue a word.
        scores: uint64 [n, S], random; those of words are overwritten.
        counts: int64 [n], predictions asked for, at least 1.
        config: what is masked together.

    Returns:
        bool [n, S], the tokens to predict, at most `counts` in a row.
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
    """The words of many rows and which are taken.

    Words and the tokens of no word are numbered through, row after row. Each row has one more token, of no word.
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
        """Takes a span in each of some rows, where it may be taken.

        Args:
            rows: int64 [m], all different.
            positions: int64 [m], where the spans' first words begin.
            lengths: int64 [m], words drawn.
            left: int64 [m], the most pieces that may be taken.

        Returns:
            int64 [m], the pieces taken.
        """
        first = self._number.take(rows * self._width + positions).astype(np.int64)
        begin = self._begins.take(first)
        end, fits, free = begin, np.ones(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        words = np.zeros(len(rows), np.int64)
        for word in range(lengths.max()):
            # What is clipped lies behind the last row's last token, which is no word: it does not count.
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
        """Returns the tokens of the words taken: bool [n, S]."""
        return self._is_taken.take(self._number).reshape(-1, self._width)[:, :-1]
