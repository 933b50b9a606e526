"""The choice of `word_masking.choose_words` on tensors: the same words for the same scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.words import position_bits, span_limits

# More pieces than any row has: the size of what may not be taken.
_NEVER = 2**30


def choose_words(
    candidates: tf.Tensor, continues: tf.Tensor, scores: tf.Tensor, counts: tf.Tensor, config: DataConfig
) -> tf.Tensor:
    """Chooses words in every row; `word_masking.choose_words` says which.

    Args:
        candidates: bool (B, S), tokens that are not special.
        continues: bool (B, S), pieces that continue a word.
        scores: uint64 (B, S), random.
        counts: int32 (B,), predictions asked for, at least 1.
        config: what is masked together.

    Returns:
        int32 (B, P), the positions of the tokens to predict, ascending, then S.
    """
    width, slots = config.max_seq_length, config.max_predictions_per_seq
    low = np.uint64(2 ** position_bits(width) - 1)
    order = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(scores, ~low), np.arange(width, dtype=np.uint64))
    words = _find_words(candidates, continues, order, config)
    positions, unfinished = _take_words(words, counts, slots, config)
    if slots == width:
        return positions
    # Few rows need more tries than predictions: only their words are put in order as a whole.
    rows = tf.where(unfinished)[:, 0]
    others = words._replace(
        order=tf.gather(words.order, rows),
        starts=tf.gather(words.starts, rows),
        counts=tf.gather(words.counts, rows),
        numbers=tf.gather(words.numbers, rows),
    )
    rest, _ = _take_words(others, tf.gather(counts, rows), width, config)
    return tf.tensor_scatter_nd_update(positions, rows[:, tf.newaxis], rest)


def smallest(values: tf.Tensor, eligible: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the smallest eligible values of each row, ascending; 2**64 - 1 where there are fewer.

    `tf.math.top_k` gives them too, in twice the time.

    Args:
        values: uint64 (B, S), those eligible distinct in their row.
        eligible: bool (B, S).
        count: how many, at most S.

    Returns:
        uint64 (B, count).
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
    """Returns `values` (M,) as the rows they belong to, int64 (M,) ascending, as many as `like` has."""
    return tf.RaggedTensor.from_value_rowids(values, rows, tf.shape(like, tf.int64)[0], validate=False)


class _Words(NamedTuple):
    """The words of B rows.

    Args:
        order: uint64 (B, S), scores with the position in the low bits.
        starts: bool (B, S), where a word begins.
        counts: int32 (B,), words in each row.
        numbers: int32 (B, S + 1), words and tokens of no word, numbered through.
        sizes: L times int32 (E,), by these numbers: pieces of the first 1, 2, ... L words from there, `_NEVER`
            where not so many follow each other.
    """

    order: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor
    numbers: tf.Tensor
    sizes: list[tf.Tensor]


def _find_words(candidates: tf.Tensor, continues: tf.Tensor, order: tf.Tensor, config: DataConfig) -> _Words:
    # With a column more, of no word, between the rows.
    inside = tf.pad(candidates[:, 1:] & candidates[:, :-1] & continues[:, 1:], [[0, 0], [1, 1]])
    starts = candidates & ~inside[:, :-1]
    begins = tf.reshape(tf.cast(~inside, tf.int32), [-1])
    # Position and kind as one number, because compacting is what costs.
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
    """Takes the words of R rows in their order.

    Args:
        words: of the R rows.
        counts: int32 (R,), predictions asked for.
        tries: how many spans of a row are tried at most.
        config: what is masked together.

    Returns:
        int32 (R, P), positions as `choose_words` returns them, and bool (R,), whether there is more to try.
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
    """Returns the first spans of R rows in their order.

    Returns:
        int32 (K, R), where each begins; int32 (K, L, R), the pieces of its first words, `_NEVER` from where it ends.
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
