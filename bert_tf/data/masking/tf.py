"""Masking on tensors, bit-identical to `tokens.mask_rows`."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.tf_randomness import integers, random_bits, stream_keys, uniform
from bert_tf.data.masking.tf_words import choose_words, ragged_rows, smallest
from bert_tf.data.masking.tokens import (
    ACTION,
    MASK_STREAM,
    REPLACEMENT,
    SCORE,
    Masked,
    prediction_counts,
    replacement_ids,
)
from bert_tf.text.vocabulary import Vocabulary


def mask_rows(
    token_ids: tf.Tensor, lengths: tf.Tensor, keys: tf.Tensor, config: DataConfig, vocabulary: Vocabulary
) -> Masked:
    """Draws masks for B padded rows; see `tokens.mask_rows`.

    `token_ids` is int32 (B, S), ids below the size of the vocabulary; `lengths` int32 (B,), tokens before padding;
    `keys` uint64 (B,), one random stream per row.
    """
    width, slots = config.max_seq_length, config.max_predictions_per_seq
    streams = stream_keys(keys, MASK_STREAM)[:, tf.newaxis]
    candidates = tf.range(width) < lengths[:, tf.newaxis]
    for special in vocabulary.special_ids:
        candidates &= token_ids != special
    scores = random_bits(streams, 3 * tf.range(width, dtype=tf.int64) + SCORE)
    counts = tf.gather(tf.constant(prediction_counts(config), tf.int32), lengths)
    if config.mask_unit == "piece":
        positions = _choose_pieces(candidates, scores, counts, slots)
    else:
        continues = tf.gather(vocabulary.is_continuation, token_ids)
        positions = choose_words(candidates, continues, scores, counts, config)
    used = positions < width
    positions = tf.where(used, positions, 0)
    originals = tf.gather(token_ids, positions, batch_dims=1)
    new = _replacements(streams, positions, originals, config, vocabulary)
    slot = tf.where(used)
    where = tf.stack([tf.cast(slot[:, 0], tf.int32), tf.gather_nd(positions, slot)], axis=1)
    return Masked(
        token_ids=tf.tensor_scatter_nd_update(token_ids, where, tf.gather_nd(new, slot)),
        mask_positions=positions,
        mask_ids=tf.where(used, originals, 0),
        mask_weights=tf.cast(used, tf.float32),
    )


def _choose_pieces(candidates: tf.Tensor, scores: tf.Tensor, counts: tf.Tensor, slots: int) -> tf.Tensor:
    """Returns the positions of the `counts` candidates with the smallest scores: int32 (B, P), ascending, then S."""
    limits = tf.gather(smallest(scores, candidates, slots), counts - 1, batch_dims=1)
    where = tf.where(candidates & (scores <= limits[:, tf.newaxis]))
    ragged = ragged_rows(tf.cast(where[:, 1], tf.int32), where[:, 0], scores)
    return ragged.to_tensor(scores.shape[1], shape=[scores.shape[0], slots])


def _replacements(
    streams: tf.Tensor,
    positions: tf.Tensor,
    originals: tf.Tensor,
    config: DataConfig,
    vocabulary: Vocabulary,
) -> tf.Tensor:
    """Returns the tokens at the masked positions after masking: int32 (B, P)."""
    pool = replacement_ids(vocabulary)
    counters = 3 * tf.cast(positions, tf.int64)
    action = uniform(streams, counters + ACTION)
    drawn = tf.gather(tf.constant(pool, tf.int32), integers(streams, counters + REPLACEMENT, len(pool)))
    kept_or_drawn = tf.where(action < config.mask_share + config.random_share, drawn, originals)
    return tf.where(action < config.mask_share, vocabulary.mask_id, kept_or_drawn)
