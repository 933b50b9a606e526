"""Basic tokenization of the original BERT in TensorFlow operations: cleans, normalizes and splits text.

Every code point is looked up in the table built by `bert_tf.text.build_table`. Two rules depend on neighbours: a
capital sigma is lower-cased by context as in `str.lower`, and the remaining marks are put into canonical order as in
NFD. Bytes that are not UTF-8 are dropped as in `bytes.decode("utf-8", "ignore")`.

One input differs from the original: a lone surrogate (U+D800 to U+DFFF), which UTF-8 cannot encode, is dropped. The
original keeps it and maps its word to `[UNK]`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.text import build_table
from bert_tf.text.vocabulary import MASK

# Placeholder for a literal `[MASK]` during cleaning: a control character that cleaning would drop.
_MASK_MARK = 1

_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_SPACE = 0x20


class CharacterTable(NamedTuple):
    """The table of one casing mode as tensors, in the layout of `build_table.build_arrays`."""

    pages: tf.Tensor
    cells: tf.Tensor
    movable: tf.Tensor


class Words(NamedTuple):
    """The words of a batch of n texts, with a total of W words and K characters, and the decoded batch."""

    strings: tf.Tensor  # (W,) string, UTF-8
    row_splits: tf.Tensor  # (n + 1,) int64, of the words by text
    char_splits: tf.Tensor  # (W + 1,) int64, of the characters by word
    chars: tf.Tensor  # (K,) int32, code points
    sources: tf.Tensor  # (K,) int64, index of each character's source in the decoded batch
    text: Text


class Text(NamedTuple):
    """A decoded batch of n texts with a total of N characters."""

    chars: tf.Tensor  # (N,) int32, code points
    row_splits: tf.Tensor  # (n + 1,) int64, of the characters by text
    flags: tf.Tensor  # (N,) int32, flags of `build_table`


@functools.cache
def load_table(lowercase: bool) -> CharacterTable:
    """Loads the table of a casing mode as constants on the CPU; cached."""
    name = "uncased" if lowercase else "cased"
    with np.load(build_table.TABLE_PATH) as arrays, tf.init_scope(), tf.device("CPU:0"):
        return CharacterTable(*(tf.constant(arrays[key]) for key in (f"pages_{name}", f"cells_{name}", "movable")))


def mark_masks(texts: tf.Tensor) -> tf.Tensor:
    """Replaces each literal `[MASK]` in `texts`, (n,) string, by a placeholder that `words` recognises."""
    mark = chr(_MASK_MARK)
    return tf.strings.regex_replace(tf.strings.regex_replace(texts, mark, ""), r"\[MASK\]", f" {mark} ")


def words(texts: tf.Tensor, lowercase: bool, masks_marked: bool = False) -> Words:
    """Returns the words of texts, (n,) string; each mark of `mark_masks` becomes `[MASK]` if `masks_marked`."""
    table = load_table(lowercase)
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    chars, row_splits = decoded.values, decoded.row_splits
    if lowercase:
        chars = tf.cond(
            tf.reduce_any(chars == _CAPITAL_SIGMA),
            lambda: _lower_final_sigmas(chars, row_splits, table),
            lambda: chars,
        )
    cells = _look_up(chars, table)
    sequences = cells[:, : build_table.WIDTH]
    if masks_marked:
        is_mark = (chars == _MASK_MARK)[:, tf.newaxis]
        mark = tf.constant([build_table.WORD] + [build_table.NOTHING] * (build_table.WIDTH - 1))
        sequences = tf.where(is_mark, mark, sequences)
    kept = tf.where(tf.reshape(sequences != build_table.NOTHING, [-1]))[:, 0]
    values = tf.gather(tf.reshape(sequences + chars[:, tf.newaxis], [-1]), kept)
    sources = kept // build_table.WIDTH
    value_splits = tf.searchsorted(kept, row_splits * build_table.WIDTH, out_type=tf.int64)
    text = Text(chars, row_splits, cells[:, build_table.WIDTH])
    if lowercase:
        values = tf.cond(
            tf.reduce_any(text.flags & build_table.MOVABLE > 0),
            lambda: _in_canonical_order(values, value_splits, sources, text.flags, table),
            lambda: values,
        )
    split = _split(values, value_splits, sources, text)
    if masks_marked:
        split = split._replace(strings=tf.where(split.strings == chr(_MASK_MARK), MASK, split.strings))
    return split


def _look_up(chars: tf.Tensor, table: CharacterTable) -> tf.Tensor:
    pages = tf.gather(table.pages, chars // build_table.PAGE)
    return tf.gather(table.cells, pages * build_table.PAGE + chars % build_table.PAGE)


def _lower_final_sigmas(chars: tf.Tensor, row_splits: tf.Tensor, table: CharacterTable) -> tf.Tensor:
    """Replaces each capital sigma at the end of a word in `chars` by the small final sigma."""
    flags = _look_up(chars, table)[:, build_table.WIDTH]
    counted = tf.where(flags & build_table.IGNORED == 0)[:, 0]
    # Uncased sentinels, so that the first and last characters have neighbours.
    positions = tf.concat([[-1], counted, [tf.size(chars, out_type=tf.int64)]], 0)
    is_cased = tf.pad(tf.gather(flags, counted) & build_table.CASED > 0, [[1, 1]])
    sigmas = tf.where(chars == _CAPITAL_SIGMA)[:, 0]
    at = tf.searchsorted(positions, sigmas)
    row = tf.searchsorted(row_splits, sigmas, side="right")
    in_row = tf.gather(positions, at - 1) >= tf.gather(row_splits, row - 1)
    after_in_row = tf.gather(positions, at + 1) < tf.gather(row_splits, row)
    is_final = (in_row & tf.gather(is_cased, at - 1)) & ~(after_in_row & tf.gather(is_cased, at + 1))
    finals = tf.boolean_mask(sigmas, is_final)
    return tf.tensor_scatter_nd_update(chars, finals[:, tf.newaxis], tf.fill(tf.shape(finals), _FINAL_SIGMA))


def _in_canonical_order(
    values: tf.Tensor, value_splits: tf.Tensor, sources: tf.Tensor, flags: tf.Tensor, table: CharacterTable
) -> tf.Tensor:
    """Sorts every run of combining marks in `values` by combining class (stable sort)."""
    marks, classes = table.movable[:, 0], table.movable[:, 1]
    at = tf.minimum(tf.searchsorted(marks, values), tf.size(marks) - 1)
    order = tf.where(tf.gather(marks, at) == values, tf.gather(classes, at), 0)
    barriers = tf.cumsum(tf.cast(flags & build_table.BARRIER > 0, tf.int32))
    run = tf.cumsum(tf.cast((order == 0) | _starts(value_splits), tf.int32)) + tf.gather(barriers, sources)
    # Combining classes are below 256.
    key = tf.cast(run, tf.int64) * 256 + tf.cast(order, tf.int64)
    return tf.gather(values, tf.argsort(key, stable=True))


def _starts(splits: tf.Tensor) -> tf.Tensor:
    """Returns a bool for each value: True if a row begins with it."""
    size = splits[-1]
    begins = tf.scatter_nd(splits[:, tf.newaxis], tf.ones_like(splits), size[tf.newaxis] + 1)
    return begins[:-1] > 0


def _split(values: tf.Tensor, value_splits: tf.Tensor, sources: tf.Tensor, text: Text) -> Words:
    """Splits values into words at spaces, `WORD` characters and the ends of texts."""
    stands_alone = values >= build_table.WORD
    is_space = values == _SPACE
    breaks_after = tf.concat([[True], (stands_alone | is_space)[:-1]], 0)[: tf.size(values)]
    begins = stands_alone | breaks_after | _starts(value_splits)
    kept = tf.where(~is_space)[:, 0]
    chars = tf.gather(values, kept) % build_table.WORD
    first_chars = tf.where(tf.gather(begins, kept))[:, 0]
    char_splits = tf.concat([first_chars, tf.shape(kept, out_type=tf.int64)], 0)
    row_splits = tf.searchsorted(first_chars, tf.searchsorted(kept, value_splits, out_type=tf.int64), out_type=tf.int64)
    strings = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(chars, char_splits, validate=False), "UTF-8")
    return Words(strings, row_splits, char_splits, chars, tf.gather(sources, kept), text)
