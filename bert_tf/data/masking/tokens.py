"""Draws the masked positions of masked language modelling (arXiv 1810.04805, section 3.1 and A.1).

The mask unit is a piece, or words as drawn by `words`. `masking.tf` draws bit-identical masks in the input pipeline.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.build import Pairs
from bert_tf.data.masking.words import choose_words
from bert_tf.data.randomness import integers, random_bits, stream_keys, uniform
from bert_tf.text.vocabulary import Vocabulary

# Positions masked at once: the scores take 2 MiB, and the overhead of numpy calls is still negligible.
_CHUNK = 2**18
# Stream of the masks among the streams derived from a pair's key.
MASK_STREAM = 1
# Offsets of the counters of position p, which are 3 p + offset.
SCORE, ACTION, REPLACEMENT = range(3)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


class Masked(NamedTuple):
    """Masked rows, as arrays or as tensors."""

    token_ids: Any  # int32 [n, S], padded with [PAD]
    mask_positions: Any  # int32 [n, P], ascending, then 0
    mask_ids: Any  # int32 [n, P], original tokens at these positions, then 0
    mask_weights: Any  # float32 [n, P], 1 for a prediction, then 0


def prediction_counts(config: DataConfig) -> np.ndarray:
    """Returns the number of predictions for every row length: int64 [S+1].

    As in the original: `min(P, max(1, round(length * masked_lm_prob)))`, where the length includes special tokens and
    halves are rounded to even (the rule of Python and IEEE 754).
    """
    counts = np.rint(np.arange(config.max_seq_length + 1) * config.masked_lm_prob).astype(np.int64)
    return np.clip(counts, 1, config.max_predictions_per_seq)


def replacement_ids(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the candidate ids of random replacements, all except special tokens: int64 [R], ascending."""
    return np.flatnonzero(~_is_special(vocabulary))


def mask_pairs(pairs: Pairs, config: DataConfig, vocabulary: Vocabulary) -> Masked:
    """Masks every pair, of at most `config.max_seq_length` tokens, once with the pair's own key; see `mask_rows`."""
    width, lengths = config.max_seq_length, np.diff(pairs.row_splits)
    step = max(_CHUNK // width, 1)
    parts = []
    for begin in range(0, max(len(pairs), 1), step):
        rows = slice(begin, begin + step)
        splits = pairs.row_splits[begin : begin + step + 1]
        is_token = np.arange(width) < lengths[rows, None]
        token_ids = np.full(is_token.shape, vocabulary.pad_id, np.int32)
        token_ids[is_token] = pairs.token_ids[splits[0] : splits[-1]]
        parts.append(mask_rows(token_ids, lengths[rows], pairs.keys[rows], config, vocabulary))
    return Masked(*map(np.concatenate, zip(*parts, strict=True)))


def mask_rows(
    token_ids: np.ndarray, lengths: np.ndarray, keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Masked:
    """Draws masks for n padded rows.

    Any token that is not special may be drawn. [UNK] counts as special, although the original predicts it. At most
    `prediction_counts` tokens are drawn per row. With `mask_unit` `piece`, these are the tokens with the smallest
    random scores. With the other units, whole words are drawn, see `words.choose_words`.

    Each drawn token independently becomes [MASK] with probability `config.mask_share`, or a token drawn from
    `replacement_ids` with probability `config.random_share`, or is kept.

    `token_ids` is int32 [n, S]; `lengths` int64 [n], tokens before padding; `keys` uint64 [n], one random stream per
    row. If a row has no candidates, all its weights are 0.
    """
    width, slots = config.max_seq_length, config.max_predictions_per_seq
    streams = stream_keys(keys, MASK_STREAM)
    candidates = np.arange(width) < lengths[:, None]
    candidates &= ~_is_special(vocabulary).take(token_ids)
    scores = random_bits(streams[:, None], 3 * np.arange(width) + SCORE)
    counts = prediction_counts(config)[lengths]
    if config.mask_unit == "piece":
        chosen = _choose_pieces(candidates, scores, counts, slots)
    else:
        chosen = choose_words(candidates, vocabulary.is_continuation.take(token_ids), scores, counts, config)
    row, position = np.divmod(np.flatnonzero(chosen), width)
    used = np.arange(slots) < np.bincount(row, minlength=len(token_ids))[:, None]
    originals = token_ids[row, position]
    masked = Masked(
        token_ids.copy(), np.zeros(used.shape, np.int32), np.zeros(used.shape, np.int32), used.astype(np.float32)
    )
    masked.mask_positions[used] = position
    masked.mask_ids[used] = originals
    masked.token_ids[row, position] = _replacements(streams[row], position, originals, config, vocabulary)
    return masked


def _is_special(vocabulary: Vocabulary) -> np.ndarray:
    special = np.zeros(len(vocabulary), np.bool_)
    special[list(vocabulary.special_ids)] = True
    return special


def _choose_pieces(candidates: np.ndarray, scores: np.ndarray, counts: np.ndarray, slots: int) -> np.ndarray:
    """Returns the `counts` (int64 [n], at most `slots`) candidates with the smallest scores per row: bool [n, S]."""
    scores = np.where(candidates, scores, _LAST)
    smallest = np.partition(scores, slots - 1, axis=1)[:, :slots]
    smallest.sort(axis=1)
    # Scores within a row are distinct, as they are a bijection of the position. With fewer candidates than requested,
    # the limit is the score of non-candidates, which is above all candidates.
    limits = np.take_along_axis(smallest, counts[:, None] - 1, axis=1)
    return candidates & (scores <= limits)


def _replacements(
    streams: np.ndarray, positions: np.ndarray, originals: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> np.ndarray:
    """Returns the tokens at `positions` [m] after masking, drawn from the streams of their rows: int32 [m]."""
    pool = replacement_ids(vocabulary)
    action = uniform(streams, 3 * positions + ACTION)
    is_mask = action < config.mask_share
    new = np.where(is_mask, np.int32(vocabulary.mask_id), originals)
    drawn = np.flatnonzero(~is_mask & (action < config.mask_share + config.random_share))
    new[drawn] = pool[integers(streams[drawn], 3 * positions[drawn] + REPLACEMENT, len(pool))]
    return new
