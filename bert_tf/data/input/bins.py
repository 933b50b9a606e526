"""Length bins: batches of examples of similar length, padded to one of a few lengths.

Shape legend: B batch, S sequence, P predictions, G batches per group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.masking.tokens import prediction_counts
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS

# G: examples are sorted by length within this many consecutive batches, so data order changes only within a group.
GROUP = 16
# Number of padded lengths: the number of shapes that a compiler of static shapes has to compile.
BINS = 8
TOO_MANY = "an example must not have more predictions than its length allows"
Arrays = dict[str, np.ndarray]
# Stream key of the order of the batches in a group.
_ORDER_STREAM = 11


def batch_rows(lengths: np.ndarray, seed: int, group: int) -> np.ndarray:
    """Assigns the examples of a group to batches of adjacent lengths: row numbers, int64 (G, B).

    `lengths` are the tokens of each example, int (G * B,). Groups are counted from 0 over the whole run. The order of
    the batches is drawn from (seed, group).
    """
    by_length = np.argsort(lengths, kind="stable").reshape(GROUP, -1)
    return by_length[np.argsort(stream_keys(seed, _ORDER_STREAM, group, np.arange(GROUP)))]


def bin_widths(config: DataConfig) -> np.ndarray:
    """Returns the padded length of a batch, indexed by the length of its longest example: int64 (S + 1,)."""
    longest = config.max_seq_length
    step = -(-longest // BINS)
    lengths = np.arange(longest + 1)
    return np.clip(-(-lengths // step) * step, step, longest)


def bin_slots(config: DataConfig, objective: str = "mlm") -> np.ndarray:
    """Returns the prediction slots of a batch, indexed by the length of its longest example: int64 (S + 1,)."""
    widths = bin_widths(config)
    return widths - 1 if objective == "causal_lm" else prediction_counts(config)[widths]


def trimmed(
    inputs: Arrays, targets: Arrays, weights: Arrays, longest: int, config: DataConfig, objective: str = "mlm"
) -> tuple[Arrays, Arrays, Arrays]:
    """Trims the padding of rows of a batch (see `schema`) to the length bin of its longest example.

    `longest` is the length of that example, which other rows than these may hold. Raises ValueError if an example has
    more predictions than its length allows.
    """
    width, slots = bin_widths(config)[longest], bin_slots(config, objective)[longest]
    if weights[MLM_LOGITS][:, slots:].any():
        raise ValueError(TOO_MANY)
    return cut(inputs, targets, weights, width, slots)


def cut(inputs: Any, targets: Any, weights: Any, width: Any, slots: Any) -> tuple[Any, Any, Any]:
    """Returns a batch, of arrays or tensors, with the first `width` tokens and `slots` predictions of each example."""
    return (
        {name: values[:, : slots if name == MASK_POSITIONS else width] for name, values in inputs.items()},
        targets | {MLM_LOGITS: targets[MLM_LOGITS][:, :slots]},
        weights | {MLM_LOGITS: weights[MLM_LOGITS][:, :slots]},
    )
