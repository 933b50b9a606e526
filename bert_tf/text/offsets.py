"""Converts byte offsets within words to character offsets within texts."""

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
    """Returns the character offsets `starts` and `limits` of all P pieces in their texts, each (P,) int32.

    A piece starts at its first character and is limited by the position after its last character and the dropped marks
    that follow it. `starts` and `ends` are those of its bytes in the word, ragged (W, None) as `ids`. Pieces of
    `whole_word_ids` cover their whole word.
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
    # RaggedTensor.value_rowids would allocate memory for rows times the longest row.
    return tf.searchsorted(row_splits, tf.range(row_splits[-1]), side="right", out_type=tf.int64) - 1


def _byte_splits(chars: tf.Tensor) -> tf.Tensor:
    """Returns the start byte of each of K characters in their UTF-8 encoding, (K + 1,) int64."""
    sizes = 1 + sum(tf.cast(chars >= longer, tf.int64) for longer in (0x80, 0x800, 0x10000))
    return tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes)], 0)


def _char_at(byte_splits: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    return tf.searchsorted(byte_splits, position, out_type=tf.int64)


def _after_marks(text: Text, ends: tf.Tensor) -> tf.Tensor:
    """Moves each end behind the dropped marks that follow it."""
    kept = tf.where(text.flags & build_table.MARK == 0)[:, 0]
    kept = tf.concat([kept, text.row_splits[-1:]], 0)
    return tf.gather(kept, tf.searchsorted(kept, ends))
