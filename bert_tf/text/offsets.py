"""From the bytes of words that word pieces cover to the characters of the texts they come from."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.text import build_table
from bert_tf.text.normalization import Text, Words


def in_texts(
    words: Words,
    ids: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    whole_word_ids: tuple[int, ...],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the place of each piece in its text.

    Args:
        words: W words of a batch of texts.
        ids: ragged (W, None), P pieces in all.
        starts, ends: ragged (W, None) as `ids`, the bytes of the word that each piece covers.
        whole_word_ids: a piece with one of these ids takes the place of its whole word.

    Returns:
        `starts` and `limits`, (P,) int32: the first character, counted from the start of the text, and the one
        after the last and after the dropped marks that follow it.
    """
    word = _row_of_value(ids.row_splits)
    byte_splits = _byte_splits(words.chars)
    word_byte = tf.gather(byte_splits, tf.gather(words.char_splits, word))
    is_whole = tf.reduce_any(ids.values[:, tf.newaxis] == tf.constant(whole_word_ids), axis=1)
    first = _char_at(byte_splits, word_byte + starts.values)
    end = tf.where(is_whole, tf.gather(words.char_splits, word + 1), _char_at(byte_splits, word_byte + ends.values))
    row = tf.gather(_row_of_value(words.row_splits), word)
    row_begin = tf.gather(words.text.row_splits, row)
    limits = _after_marks(words.text, tf.gather(words.sources, end - 1) + 1)
    limits = tf.minimum(limits, tf.gather(words.text.row_splits, row + 1))
    starts_in_text = tf.gather(words.sources, first) - row_begin
    return tf.cast(starts_in_text, tf.int32), tf.cast(limits - row_begin, tf.int32)


def _row_of_value(row_splits: tf.Tensor) -> tf.Tensor:
    # Not RaggedTensor.value_rowids: it takes rows times the longest row of memory.
    return tf.searchsorted(row_splits, tf.range(row_splits[-1]), side="right", out_type=tf.int64) - 1


def _byte_splits(chars: tf.Tensor) -> tf.Tensor:
    """Returns (K + 1,) int64: where each of the K characters begins in the UTF-8 of all."""
    sizes = 1 + sum(tf.cast(chars >= longer, tf.int64) for longer in (0x80, 0x800, 0x10000))
    return tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes)], 0)


def _char_at(byte_splits: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    return tf.searchsorted(byte_splits, position, out_type=tf.int64)


def _after_marks(text: Text, ends: tf.Tensor) -> tf.Tensor:
    """Returns `ends`, each moved behind the dropped marks that stand there."""
    others = tf.where(text.flags & build_table.MARK == 0)[:, 0]
    others = tf.concat([others, text.row_splits[-1:]], 0)
    return tf.gather(others, tf.searchsorted(others, ends))
