"""Draws the masked positions of masked language modelling (arXiv 1810.04805, section 3.1 and A.1).

`tf_masking` draws the same masks in the input pipeline, bit for bit.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.pairs import Pairs
from bert_tf.data.randomness import integers, random_bits, stream_keys, uniform
from bert_tf.text.vocabulary import Vocabulary

# Rows masked at once; their scores then stay within a few megabytes.
_CHUNK = 2048
# The stream of the masks among those that can be named by a pair's key.
MASK_STREAM = 1
# Draws of position p have the counters 3 p + these.
SCORE, ACTION, REPLACEMENT = range(3)


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
    return np.setdiff1d(np.arange(len(vocabulary)), np.array(vocabulary.special_ids))


def mask_pairs(pairs: Pairs, config: DataConfig, vocabulary: Vocabulary) -> Masked:
    """Masks every pair once, by its own key.

    Args:
        pairs: n rows of at most `config.max_seq_length` tokens.
        config: lengths and shares.
        vocabulary: the special tokens and the number of pieces.

    Returns:
        The masked rows; see `mask_rows`.
    """
    lengths = np.diff(pairs.row_splits)
    parts = []
    for begin in range(0, max(len(pairs), 1), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        splits = pairs.row_splits[begin : begin + _CHUNK + 1]
        token_ids = np.full((len(splits) - 1, config.max_seq_length), vocabulary.pad_id, np.int32)
        there = np.arange(config.max_seq_length) < lengths[rows, None]
        token_ids[there] = pairs.token_ids[splits[0] : splits[-1]]
        parts.append(mask_rows(token_ids, lengths[rows], pairs.keys[rows], config, vocabulary))
    names = [field.name for field in dataclasses.fields(Masked)]
    return Masked(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def mask_rows(
    token_ids: np.ndarray, lengths: np.ndarray, keys: np.ndarray, config: DataConfig, vocabulary: Vocabulary
) -> Masked:
    """Draws masks for padded rows.

    Any token that is not special may be drawn, [UNK] being special (the original predicts it): those with the
    smallest random scores, as many as `prediction_counts` says or as there are. Of these `config.mask_share` become
    [MASK], `config.random_share` a token drawn from `replacement_ids`, the rest stay.

    Args:
        token_ids: int32 [n, S].
        lengths: int64 [n], tokens before padding.
        keys: uint64 [n], one random stream a row.
        config: P, the probability and the shares.
        vocabulary: the special tokens and the number of pieces.

    Returns:
        The masked rows; where a row has no token but special ones, all its weights are 0.
    """
    width, slots = config.max_seq_length, config.max_predictions_per_seq
    streams = stream_keys(keys, MASK_STREAM)[:, None]
    special = np.zeros(len(vocabulary), bool)
    special[list(vocabulary.special_ids)] = True
    candidates = ~special[token_ids] & (np.arange(width) < lengths[:, None])
    last = np.uint64(0xFFFFFFFFFFFFFFFF)
    scores = np.where(candidates, random_bits(streams, 3 * np.arange(width) + SCORE), last)
    chosen = np.argpartition(scores, slots - 1, axis=1)[:, :slots]
    chosen = np.take_along_axis(chosen, np.argsort(np.take_along_axis(scores, chosen, 1), axis=1), 1)
    counts = np.minimum(prediction_counts(config)[lengths], candidates.sum(axis=1))
    used = np.arange(slots) < counts[:, None]
    positions = np.sort(np.where(used, chosen, width), axis=1)
    positions = np.where(used, positions, 0)
    originals = np.take_along_axis(token_ids, positions, 1)
    masked = token_ids.copy()
    row, slot = np.nonzero(used)
    new = _replacements(streams, positions, originals, config, vocabulary)
    masked[row, positions[row, slot]] = new[row, slot]
    return Masked(
        token_ids=masked,
        mask_positions=positions.astype(np.int32),
        mask_ids=np.where(used, originals, 0).astype(np.int32),
        mask_weights=used.astype(np.float32),
    )


def _replacements(
    streams: np.ndarray,
    positions: np.ndarray,
    originals: np.ndarray,
    config: DataConfig,
    vocabulary: Vocabulary,
) -> np.ndarray:
    """Returns what stands at every position [n, P] after masking: int32 [n, P]."""
    pool = replacement_ids(vocabulary)
    action = uniform(streams, 3 * positions + ACTION)
    drawn = pool[integers(streams, 3 * positions + REPLACEMENT, len(pool))]
    kept_or_drawn = np.where(action < config.mask_share + config.random_share, drawn, originals)
    return np.where(action < config.mask_share, vocabulary.mask_id, kept_or_drawn).astype(np.int32)
