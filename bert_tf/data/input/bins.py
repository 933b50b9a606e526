"""Batches of examples of about the same length, padded to the longest of a few lengths only.

Shape legend: B batch, S sequence, P predictions, G batches of a group.
"""

from __future__ import annotations

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.tokens import prediction_counts
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, PADDING_MASK

# G: batches are cut from this many in a row, so that the order of the data changes within a group only.
GROUP = 16
# Lengths that a batch may be padded to: a compiler of static shapes meets no more than these.
BINS = 8
TOO_MANY = "an example must have no more predictions than its length gives"
Arrays = dict[str, np.ndarray]
# Names the stream that the order of a group's batches is drawn from.
_ORDER_STREAM = 11


def batch_rows(lengths: np.ndarray, seed: int, group: int) -> np.ndarray:
    """Returns which examples of a group make up each of its batches.

    Args:
        lengths: int (G * B,), tokens of the examples of the group.
        seed: of the run.
        group: number of the group, counted from 0 over the whole run.

    Returns:
        int64 (G, B), row numbers: each batch holds neighbours in the order of lengths, the batches come in an order
        that is drawn from (seed, group).
    """
    by_length = np.argsort(lengths, kind="stable").reshape(GROUP, -1)
    return by_length[np.argsort(stream_keys(seed, _ORDER_STREAM, group, np.arange(GROUP)))]


def bin_widths(config: DataConfig) -> np.ndarray:
    """Returns what a batch is padded to, by the length of its longest example: int64 (S + 1,)."""
    longest = config.max_seq_length
    step = -(-longest // BINS)
    lengths = np.arange(longest + 1)
    return np.clip(-(-lengths // step) * step, step, longest)


def bin_slots(config: DataConfig) -> np.ndarray:
    """Returns the predictions that a batch has room for, by the length of its longest example: int64 (S + 1,)."""
    return prediction_counts(config)[bin_widths(config)]


def trimmed(inputs: Arrays, targets: Arrays, weights: Arrays, config: DataConfig) -> tuple[Arrays, Arrays, Arrays]:
    """Returns a batch (see `schema`) without the padding that its longest example does not need.

    Raises:
        ValueError: for an example with more predictions than its length gives.
    """
    longest = inputs[PADDING_MASK].sum(axis=1).max()
    width, slots = bin_widths(config)[longest], bin_slots(config)[longest]
    if weights[MLM_LOGITS][:, slots:].any():
        raise ValueError(TOO_MANY)
    return (
        {name: values[:, : slots if name == MASK_POSITIONS else width] for name, values in inputs.items()},
        targets | {MLM_LOGITS: targets[MLM_LOGITS][:, :slots]},
        weights | {MLM_LOGITS: weights[MLM_LOGITS][:, :slots]},
    )
