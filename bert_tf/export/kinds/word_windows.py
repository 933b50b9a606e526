"""Rows of texts that are split into words; long texts are cut as in `bert_tf.tasks.ner.rows`.

Shape legend: B texts, N rows, W words of all texts. All numbers are int64.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_tf.export.checks import MAX_MODEL_ROWS, checked_row_count


class WordRows(NamedTuple):
    """Rows of words, and the row in which each word is predicted."""

    starts: tf.Tensor  # (N,), first word of each row
    ends: tf.Tensor  # (N,), word after the last of each row
    of_word: tf.Tensor  # (W,), row in which a word is predicted: the one whose nearer edge is farthest from the word


def word_rows(offsets: tf.Tensor, splits: tf.Tensor, capacity: int, name: str) -> WordRows:
    """Returns one row for a text that fits, otherwise rows that overlap by half.

    Row splits of the word pieces (W + 1,) and of the words (B + 1,) describe the texts; each word has at least 1 and at
    most `capacity` pieces, as many as a row. An error about too many rows names the input `name`.
    """
    begins = tf.gather(offsets, splits)
    fit = tf.reduce_all(begins[1:] - begins[:-1] <= capacity)
    texts = tf.range(tf.size(splits, tf.int64) - 1)
    whole = (texts, splits[:-1], splits[1:])
    of, starts, ends = tf.cond(fit, lambda: whole, lambda: _cut(offsets, splits, capacity))
    with tf.control_dependencies([checked_row_count(tf.size(of), name)]):
        of = tf.identity(of)
    # From the middle of the overlap of two rows, words are predicted in the second row.
    goes_on = tf.concat([of[1:] == of[:-1], [False]], 0)[: tf.size(of)]
    next_starts = tf.concat([starts[1:], [0]], 0)[: tf.size(of)]
    middles = tf.searchsorted(
        2 * offsets, tf.gather(offsets, next_starts) + tf.gather(offsets, ends), out_type=tf.int64
    )
    lasts = tf.where(goes_on, middles, ends)
    words = tf.range(tf.size(offsets, tf.int64) - 1)
    return WordRows(starts, ends, tf.searchsorted(lasts, words, side="right", out_type=tf.int64))


def _cut(offsets: tf.Tensor, splits: tf.Tensor, capacity: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the text, the first word and the word after the last of each row, (N,), N <= `MAX_MODEL_ROWS` + 1."""

    def word_at(value: tf.Tensor, side: str) -> tf.Tensor:
        return tf.searchsorted(offsets, value[tf.newaxis], side=side, out_type=tf.int64)[0]

    def row(text: tf.Tensor, start: tf.Tensor, number: tf.Tensor, *rows: tf.TensorArray) -> tuple[tf.Tensor, ...]:
        first, last = splits[text], splits[text + 1]
        end = tf.minimum(last, word_at(offsets[start] + capacity, "right") - 1)
        is_last = end >= last
        # The last row extends back as far as possible.
        begin = tf.where(is_last, tf.maximum(first, word_at(offsets[last] - capacity, "left")), start)
        half = word_at(offsets[start] + (capacity + 1) // 2, "left")
        following = tf.maximum(start + 1, tf.minimum(half, end))
        text_rows = [array.write(number, value) for array, value in zip(rows, (text, begin, end), strict=True)]
        return text + tf.cast(is_last, tf.int64), tf.where(is_last, last, following), number + 1, *text_rows

    def goes_on(text: tf.Tensor, start: tf.Tensor, number: tf.Tensor, *rows: tf.TensorArray) -> tf.Tensor:
        del start, rows
        return (text < tf.size(splits, tf.int64) - 1) & (number <= MAX_MODEL_ROWS)

    arrays = [tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[]) for _ in range(3)]
    state = (tf.constant(0, tf.int64), tf.constant(0, tf.int64), tf.constant(0), *arrays)
    return tuple(array.stack() for array in tf.while_loop(goes_on, row, state, parallel_iterations=1)[3:])
