"""Splits texts into words with character positions, as graph operations for named entity recognition.

Shape legend: B texts, N characters of all texts, W words of all texts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

# Bit flags of the character classes that `split` distinguishes.
_SPACE, _OPENING, _CLOSING, _ALONE, _APOSTROPHE, _DOT, _DIGIT, _S = (1 << bit for bit in range(8))
_KINDS = {
    _OPENING: "\"'`([{<“‘«‹„‚¿¡「『（【《〈",
    _CLOSING: "\"'`)]}>”’»›.,;:!?…%。，、；：！？」』）】》〉",
    _ALONE: "—―。，、；：！？",
    _APOSTROPHE: "'’",
    _DOT: ".",
    _DIGIT: "0123456789",
    _S: "sS",
}
# Ideographs, each of which is a word, as in the original's basic tokenization (BasicTokenizer._is_chinese_char).
_IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


class TextWords(NamedTuple):
    """The words of B texts."""

    strings: tf.Tensor  # (W,) string
    row_splits: tf.Tensor  # (B + 1,) int64, row splits of the words by text
    starts: tf.Tensor  # (W,) int32, position of the first character in the text
    limits: tf.Tensor  # (W,) int32, position after the last character


def split(texts: tf.Tensor, *, at_spaces_only: bool) -> TextWords:
    """Splits texts (B,) into words; bytes that are not valid UTF-8 count as U+FFFD.

    Unless `at_spaces_only`, punctuation at either end and a final `'s` are split off as words, as in named entity
    corpora: `("Ruiz's)` becomes `( " Ruiz 's )`. A full stop stays if the word contains another one (`U.N.`) or has a
    single letter (`J.`). Each ideograph and each dash is a word. A repeated punctuation character is one word (`...`).
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    chars, row_splits = decoded.values, decoded.row_splits
    kinds = _kinds(chars)
    is_space = kinds & _SPACE > 0
    starts_text = marks(row_splits[:-1], tf.size(chars, out_type=tf.int64))
    begins = ~is_space & (starts_text | _shifted(is_space, True))
    if not at_spaces_only:
        begins = _at_punctuation(chars, kinds, begins)
    kept = tf.where(~is_space)[:, 0]
    first = tf.where(tf.gather(begins, kept))[:, 0]
    char_splits = tf.concat([first, tf.shape(kept, out_type=tf.int64)], 0)
    strings = tf.strings.unicode_encode(
        tf.RaggedTensor.from_row_splits(tf.gather(chars, kept), char_splits, validate=False), "UTF-8"
    )
    begin = tf.gather(kept, first)
    last = tf.gather(kept, char_splits[1:] - 1)
    row = tf.searchsorted(row_splits, begin, side="right") - 1
    origin = tf.gather(row_splits, tf.cast(row, tf.int64))
    word_splits = tf.searchsorted(begin, row_splits, out_type=tf.int64)
    return TextWords(strings, word_splits, tf.cast(begin - origin, tf.int32), tf.cast(last + 1 - origin, tf.int32))


def _at_punctuation(chars: tf.Tensor, kinds: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Returns a bool (N,), True for the first character of a word; `begins` is the same for splits at spaces only."""
    is_space = kinds & _SPACE > 0
    chunk = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    # Spaces before the first chunk count as part of it; without chunks, as part of an empty one.
    first = tf.concat([tf.where(begins)[:, 0], [tf.size(chars, tf.int64)]], 0)

    def up_to(counted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the number of counted characters in a chunk, up to each character and in total."""
        running = tf.concat([[0], tf.cumsum(tf.cast(counted & ~is_space, tf.int64))], 0)
        before, after = (tf.gather(running, part) for part in (first, tf.concat([first[1:], first[-1:]], 0)))
        at = tf.maximum(chunk, 0)
        return running[1:] - tf.gather(before, at), tf.gather(after - before, at)

    opening, closing = kinds & _OPENING > 0, kinds & _CLOSING > 0
    leading = opening & (up_to(~opening)[0] == 0)
    counted, total = up_to(~closing | leading)
    trailing = closing & ~leading & (counted == total)
    trailing &= ~_kept_dots(kinds, trailing, leading, up_to)
    last = ~trailing & (_next(trailing | is_space, True) | _next(begins, True))
    of_owner = (kinds & _APOSTROPHE > 0) & _next((kinds & _S > 0) & last, False) & ~_shifted(leading, False)
    alone = (kinds & _ALONE > 0) | _is_ideograph(chars)
    edges = leading | trailing
    inner = edges | alone | of_owner | _shifted(leading | alone, False)
    repeated = (chars == _shifted(chars, -1)) & (edges | alone) & _shifted(edges | alone, False) & ~_is_ideograph(chars)
    return begins | (inner & ~is_space & ~repeated)


def _kept_dots(
    kinds: tf.Tensor, trailing: tf.Tensor, leading: tf.Tensor, up_to: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
) -> tf.Tensor:
    """Returns a bool (N,), True for final full stops that belong to an abbreviation."""
    core = ~(trailing | leading)
    is_dot, is_digit = kinds & _DOT > 0, kinds & _DIGIT > 0
    dots, letters, digits = (up_to(core & kind)[1] for kind in (is_dot, ~is_dot, is_digit))
    is_first = trailing & ~_shifted(trailing, False) & is_dot
    return is_first & (digits == 0) & ((dots > 0) | (letters == 1))


def _kinds(chars: tf.Tensor) -> tf.Tensor:
    """Returns the bit flags of characters, (N,) int32; 0 beyond the first plane."""
    return tf.cast(tf.gather(tf.constant(_table()), tf.minimum(chars, 0x10000)), tf.int32)


@functools.cache
def _table() -> np.ndarray:
    table = np.zeros(0x10001, np.uint8)
    for code in range(0x10000):
        table[code] = _SPACE if chr(code).isspace() else 0
    for kind, members in _KINDS.items():
        table[[ord(member) for member in members]] |= kind
    return table


def _is_ideograph(chars: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any([(chars >= low) & (chars <= high) for low, high in _IDEOGRAPHS], axis=0)


def _shifted(values: tf.Tensor, before: bool | int) -> tf.Tensor:
    """Returns the value of the previous character for each character, and `before` for the first."""
    return tf.concat([[before], values], 0)[:-1]


def _next(values: tf.Tensor, after: bool) -> tf.Tensor:
    """Returns the value of the next character for each character, and `after` for the last."""
    return tf.concat([values, [after]], 0)[1:]


def marks(positions: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns a bool (size,), True at `positions`; a position equal to `size` is ignored."""
    return tf.scatter_nd(positions[:, tf.newaxis], tf.ones_like(positions), size[tf.newaxis] + 1)[:-1] > 0
