"""Whole-word and span masking on tensors, bit-identical to `words.choose_words`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.words import position_bits, span_limits

# Size of a span that must not be taken: more pieces than any row has.
_NEVER = 2**30


def choose_words(
    candidates: tf.Tensor, continues: tf.Tensor, scores: tf.Tensor, counts: tf.Tensor, config: DataConfig
) -> tf.Tensor:
    """Chooses words in every row, see `words.choose_words`: positions of the tokens to predict, int32 (B, P).

    Positions are ascending, then S. `counts` is int32 (B,); the other tensors are (B, S).
    """
    width, slots = config.max_seq_length, config.max_predictions_per_seq
    low = np.uint64(2 ** position_bits(width) - 1)
    order = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(scores, ~low), np.arange(width, dtype=np.uint64))
    words = _find_words(candidates, continues, order, config)
    positions, unfinished = _take_words(words, counts, slots, config)
    if slots == width:
        return positions
    # Few rows need more tries than predictions; only the words of these rows are sorted completely.
    rows = tf.where(unfinished)[:, 0]
    remaining = words._replace(
        order=tf.gather(words.order, rows),
        starts=tf.gather(words.starts, rows),
        counts=tf.gather(words.counts, rows),
        numbers=tf.gather(words.numbers, rows),
    )
    rest, _ = _take_words(remaining, tf.gather(counts, rows), width, config)
    return tf.tensor_scatter_nd_update(positions, rows[:, tf.newaxis], rest)


def smallest(values: tf.Tensor, eligible: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the `count` <= S smallest eligible values of each row, ascending, then 2**64 - 1: uint64 (B, count).

    `values`, uint64 (B, S), are distinct within a row if `eligible`, bool (B, S). `tf.math.top_k` returns the same
    values in twice the time.
    """
    last = tf.constant(2**64 - 1, tf.uint64)
    values = tf.where(eligible, values, last)
    if count < values.shape[1]:
        limits = tf.raw_ops.NthElement(input=values, n=count - 1)
        where = tf.where(eligible & (values <= limits[:, tf.newaxis]))
        ragged = ragged_rows(tf.gather_nd(values, where), where[:, 0], values)
        values = ragged.to_tensor(last, shape=[values.shape[0], count])
    return tf.sort(values, axis=1)


def ragged_rows(values: tf.Tensor, rows: tf.Tensor, like: tf.Tensor) -> tf.RaggedTensor:
    """Returns `values` (M,) as a ragged tensor of their `rows` (int64 (M,), ascending), with as many rows as `like`."""
    return tf.RaggedTensor.from_value_rowids(values, rows, tf.shape(like, tf.int64)[0], validate=False)


class _Words(NamedTuple):
    """The words of B rows.

    The sizes are indexed by the numbers: total pieces of the next 1, 2, ... L words, `_NEVER` if fewer words follow
    each other.
    """

    order: tf.Tensor  # uint64 (B, S), scores with the position in the low bits
    starts: tf.Tensor  # bool (B, S), True at the start of a word
    counts: tf.Tensor  # int32 (B,), words in each row
    numbers: tf.Tensor  # int32 (B, S + 1), consecutive numbers of words and of tokens outside words
    sizes: list[tf.Tensor]  # L tensors int32 (E,)


def _find_words(candidates: tf.Tensor, continues: tf.Tensor, order: tf.Tensor, config: DataConfig) -> _Words:
    # An extra column outside any word separates the rows.
    inside = tf.pad(candidates[:, 1:] & candidates[:, :-1] & continues[:, 1:], [[0, 0], [1, 1]])
    starts = candidates & ~inside[:, :-1]
    begins = tf.reshape(tf.cast(~inside, tf.int32), [-1])
    # Position and kind share one number, because compaction dominates the cost.
    kinds = tf.reshape(tf.pad(tf.cast(starts, tf.int32), [[0, 0], [0, 1]]), [-1])
    compact = tf.dynamic_partition(2 * tf.range(tf.size(kinds)) + kinds, begins, 2)[1]
    count, longest = tf.size(compact), len(span_limits(config)) + 1
    compact = tf.pad(compact, [[0, longest]])
    position = tf.bitwise.right_shift(compact, 1)
    is_word = tf.cast(compact & 1, tf.bool)
    sizes, words_only = [], tf.ones_like(is_word[:count])
    for word in range(longest):
        words_only &= is_word[word : word + count]
        pieces = position[word + 1 : word + 1 + count] - position[:count]
        sizes.append(tf.where(words_only, pieces, _NEVER))
    return _Words(
        order=order,
        starts=starts,
        counts=tf.reduce_sum(tf.cast(starts, tf.int32), axis=1),
        numbers=tf.reshape(tf.cumsum(begins) - 1, tf.shape(inside)),
        sizes=sizes,
    )


def _take_words(words: _Words, counts: tf.Tensor, tries: int, config: DataConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes the words of R rows in their random order, at most `tries` spans per row.

    `counts`, int32 (R,), are the requested predictions. Returns int32 (R, P), positions as in `choose_words`, and bool
    (R,), True if spans are left to try.
    """
    begins, sizes = _spans(words, tries, config)

    def goes_on(step: tf.Tensor, left: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        del ends
        return (step < tries) & tf.reduce_any((left > 0) & (words.counts > step))

    def take(step: tf.Tensor, left: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        begin, size = tf.gather(begins, step), tf.gather(sizes, step)
        pieces = tf.reduce_max(tf.where(size <= left, size, 0), axis=0)
        if len(words.sizes) > 1:
            touches = tf.reduce_any((ends > begin) & (begins < begin + pieces), axis=0)
            pieces = tf.where(touches, 0, pieces)
        end = tf.where(pieces > 0, begin + pieces, 0)
        return step + 1, left - pieces, tf.tensor_scatter_nd_update(ends, [[step]], end[tf.newaxis])

    start = (tf.constant(0), counts, tf.zeros_like(begins))
    _, left, ends = tf.while_loop(goes_on, take, start, parallel_iterations=1)
    begins, ends = tf.transpose(begins), tf.transpose(ends)
    taken = tf.ragged.range(tf.reshape(tf.minimum(begins, ends), [-1]), tf.reshape(ends, [-1])).values
    ragged = tf.RaggedTensor.from_row_lengths(taken, counts - left, validate=False)
    shape = [counts.shape[0], config.max_predictions_per_seq]
    positions = ragged.to_tensor(config.max_seq_length, shape=shape)
    return tf.sort(positions, axis=1), (left > 0) & (words.counts > tries)


def _spans(words: _Words, tries: int, config: DataConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first spans of R rows in their random order: the start of each, int32 (K, R), and their sizes.

    The sizes, int32 (K, L, R), are the total pieces of its first words, `_NEVER` past its end.
    """
    draws = tf.transpose(tf.bitcast(smallest(words.order, words.starts, tries), tf.int64))
    begins = tf.cast(draws & (2 ** position_bits(config.max_seq_length) - 1), tf.int32)
    begins = tf.minimum(begins, config.max_seq_length)
    numbers = tf.transpose(tf.gather(words.numbers, tf.transpose(begins), batch_dims=1))
    goes_on = tf.range(tries)[:, tf.newaxis] < words.counts
    sizes = []
    for of_numbers, limit in zip(words.sizes, [0, *span_limits(config)], strict=True):
        goes_on &= (draws & (2**32 - 1)) >= limit
        sizes.append(tf.where(goes_on, tf.gather(of_numbers, numbers), _NEVER))
    return begins, tf.stack(sizes, axis=1)
