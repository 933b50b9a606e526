"""Draws the masked positions of masked language modelling (arXiv 1810.04805, section 3.1 and A.1).

`tf_masking` draws the same masks in the input pipeline, bit for bit. What is masked together is a piece, or words as
`word_masking` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.build import Pairs
from bert_tf.data.masking.words import choose_words
from bert_tf.data.randomness import integers, random_bits, stream_keys, uniform
from bert_tf.text.vocabulary import Vocabulary

# Positions masked at once: their scores take 2 MiB, and calls of numpy do not count yet.
_CHUNK = 2**18
# The stream of the masks among those that can be named by a pair's key.
MASK_STREAM = 1
# Draws of position p have the counters 3 p + these.
SCORE, ACTION, REPLACEMENT = range(3)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Masked:
    """Masked rows.

    Args:
        token_ids: int32 [n, S], padded with [PAD].
        mask_positions: int32 [n, P], ascending, then 0.
        mask_ids: int32 [n, P], the tokens that stood there, then 0.
        mask_weights: float32 [n, P], 1 for a prediction, then 0.
    """

    token_ids: np.ndarray
    mask_positions: np.ndarray
    mask_ids: np.ndarray
    mask_weights: np.ndarray


def prediction_counts(config: DataConfig) -> np.ndarray:
    """Returns the number of predictions for every length of a row.

    As in the original: `min(P, max(1, round(length * masked_lm_prob)))`, the length with special tokens, halves
    rounded to the even neighbour (Python's and IEEE 754's rule).

    Returns:
        int64 [S+1], indexed by length.
    """
    counts = np.rint(np.arange(config.max_seq_length + 1) * config.masked_lm_prob).astype(np.int64)
    return np.clip(counts, 1, config.max_predictions_per_seq)


def replacement_ids(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the ids a random replacement is drawn from, all but the special tokens: int64 [R], ascending."""
    return np.flatnonzero(~_is_special(vocabulary))


def mask_pairs(pairs: Pairs, config: DataConfig, vocabulary: Vocabulary) -> Masked:
    """Masks every pair once, by its own key.

    Args:
        pairs: n rows of at most `config.max_seq_length` tokens.
        config: lengths, shares and what is masked together.
        vocabulary: the special tokens and the pieces.

    Returns:
        The masked rows; see `mask_rows`.
    """
    width, lengths = config.max_seq_length, np.diff(pairs.row_splits)
    masked = _unmasked(np.full((len(pairs), width), vocabulary.pad_id, np.int32), config)
    tables = _Tables(config, vocabulary)
    step = max(_CHUNK // width, 1)
    for begin in range(0, len(pairs), step):
        rows = slice(begin, begin + step)
        splits = pairs.row_splits[begin : begin + step + 1]
        there = np.arange(width) < lengths[rows, None]
        masked.token_ids[rows][there] = pairs.token_ids[splits[0] : splits[-1]]
        _mask(masked, rows, lengths[rows], pairs.keys[rows], tables)
    return masked


def mask_rows(
    token_ids: np.ndarray, lengths: np.ndarray, keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Masked:
    """Draws masks for padded rows.

    Any token that is not special may be drawn, [UNK] being special (the original predicts it). With `mask_unit`
    `piece` these are the tokens with the smallest random scores, as many as `prediction_counts` says or as there are;
    with the other units whole words, see `word_masking.choose_words`, never more than that.

    Of the drawn tokens, each by itself, `config.mask_share` become [MASK], `config.random_share` a token drawn from
    `replacement_ids`, the rest stay.

    Args:
        token_ids: int32 [n, S].
        lengths: int64 [n], tokens before padding.
        keys: uint64 [n], one random stream a row.
        config: P, the probability, the shares and what is masked together.
        vocabulary: the special tokens and the pieces.

    Returns:
        The masked rows; where a row has nothing that may be drawn, all its weights are 0.
    """
    masked = _unmasked(token_ids.copy(), config)
    _mask(masked, slice(None), lengths, keys, _Tables(config, vocabulary))
    return masked


def _is_special(vocabulary: Vocabulary) -> np.ndarray:
    special = np.zeros(len(vocabulary), np.bool_)
    special[list(vocabulary.special_ids)] = True
    return special


class _Tables:
    """What masking looks up, the same for all rows."""

    def __init__(self, config: DataConfig, vocabulary: Vocabulary) -> None:
        self.config = config
        self.counts = prediction_counts(config)
        self.is_special = _is_special(vocabulary)
        self.is_continuation = vocabulary.is_continuation
        self.replacement_ids = replacement_ids(vocabulary)
        self.mask_id = vocabulary.mask_id


def _unmasked(token_ids: np.ndarray, config: DataConfig) -> Masked:
    shape = (len(token_ids), config.max_predictions_per_seq)
    return Masked(token_ids, np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.float32))


def _mask(masked: Masked, rows: slice, lengths: np.ndarray, keys: np.ndarray, tables: _Tables) -> None:
    """Draws the masks of some `rows`, still unmasked, into them."""
    token_ids, config = masked.token_ids[rows], tables.config
    width = config.max_seq_length
    streams = stream_keys(keys, MASK_STREAM)
    candidates = np.arange(width) < lengths[:, None]
    candidates &= ~tables.is_special.take(token_ids)
    scores = random_bits(streams[:, None], 3 * np.arange(width) + SCORE)
    counts = tables.counts[lengths]
    if config.mask_unit == "piece":
        chosen = _choose_pieces(candidates, scores, counts, config.max_predictions_per_seq)
    else:
        continues = tables.is_continuation.take(token_ids)
        chosen = choose_words(candidates, continues, scores, counts, config)
    row, position = np.divmod(np.flatnonzero(chosen), width)
    counts = np.bincount(row, minlength=len(token_ids))
    used = np.arange(config.max_predictions_per_seq) < counts[:, None]
    originals = token_ids[row, position]
    masked.mask_positions[rows][used] = position
    masked.mask_ids[rows][used] = originals
    masked.mask_weights[rows][used] = 1.0
    token_ids[row, position] = _replacements(streams[row], position, originals, tables)


def _choose_pieces(candidates: np.ndarray, scores: np.ndarray, counts: np.ndarray, slots: int) -> np.ndarray:
    """Returns the `counts` (int64 [n], at most `slots`) candidates of smallest score in each row: bool [n, S]."""
    scores = np.where(candidates, scores, _LAST)
    smallest = np.partition(scores, slots - 1, axis=1)[:, :slots]
    smallest.sort(axis=1)
    # No two scores of a row are equal: they are a bijection of the position. Where there are fewer candidates than
    # asked for, the limit is that of no candidate, which all are below.
    limits = np.take_along_axis(smallest, counts[:, None] - 1, axis=1)
    return candidates & (scores <= limits)


def _replacements(streams: np.ndarray, positions: np.ndarray, originals: np.ndarray, tables: _Tables) -> np.ndarray:
    """Returns what stands at every position [m], each of the stream of its row, after masking: int32 [m]."""
    config, pool = tables.config, tables.replacement_ids
    action = uniform(streams, 3 * positions + ACTION)
    is_mask = action < config.mask_share
    new = np.where(is_mask, np.int32(tables.mask_id), originals)
    drawn = np.flatnonzero(~is_mask & (action < config.mask_share + config.random_share))
    new[drawn] = pool[integers(streams[drawn], 3 * positions[drawn] + REPLACEMENT, len(pool))]
    return new
