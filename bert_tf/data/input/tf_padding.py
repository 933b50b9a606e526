"""Length bins and packing (`bins` and `packing`) in tf.data.

Shape legend: B batch, S sequence, P predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from bert_tf.config.data import DataConfig
from bert_tf.data.input.bins import GROUP, TOO_MANY, batch_rows, bin_slots, bin_widths, cut
from bert_tf.data.input.dataset import RowShare
from bert_tf.data.input.packing import MOST_EXAMPLES, pack_batch
from bert_tf.data.schema import (
    EXAMPLE_IDS,
    FIRST_POSITIONS,
    MASK_POSITIONS,
    MLM_LOGITS,
    NSP_LOGITS,
    PADDING_MASK,
    POSITION_IDS,
)

Tensors = dict[str, tf.Tensor]
# Dtypes of inputs, targets and weights.
_DTYPES = (tf.int32, tf.int32, tf.float32)


def in_parallel(batches: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """Maps a function over batches in parallel and keeps their order."""
    return batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def packed_batches(batches: tf.data.Dataset, multiple: int) -> tf.data.Dataset:
    """Packs each batch of `input.tf.pretraining_dataset`, with static S and P, with `pack_batch`; R is not static."""
    return in_parallel(batches, partial(_packed, multiple=multiple)).prefetch(tf.data.AUTOTUNE)


def _packed(inputs: Tensors, targets: Tensors, weights: Tensors, multiple: int) -> tuple[Tensors, Tensors, Tensors]:
    length, slots = inputs[PADDING_MASK].shape[1], inputs[MASK_POSITIONS].shape[1]
    batch = (inputs, targets, weights)
    widths = (
        dict.fromkeys([*inputs, EXAMPLE_IDS, POSITION_IDS], length)
        | {MASK_POSITIONS: slots, FIRST_POSITIONS: MOST_EXAMPLES},
        {MLM_LOGITS: slots, NSP_LOGITS: MOST_EXAMPLES},
        {MLM_LOGITS: slots, NSP_LOGITS: MOST_EXAMPLES},
    )
    dtypes = tuple(dict.fromkeys(names, dtype) for names, dtype in zip(widths, _DTYPES, strict=True))

    def pack(*arrays: Any) -> list[Any]:
        inputs, targets, weights = tf.nest.pack_sequence_as(batch, arrays)
        return tf.nest.flatten(pack_batch(inputs, targets, weights, multiple))

    packed = tf.numpy_function(pack, tf.nest.flatten(batch), tf.nest.flatten(dtypes), stateful=False)
    for tensor, width in zip(packed, tf.nest.flatten(widths), strict=True):
        tensor.set_shape([None, width])
    return tf.nest.pack_sequence_as(dtypes, packed)


def own_rows(batches: tf.data.Dataset, share: RowShare) -> tf.data.Dataset:
    """Returns the rows of a share of each batch."""

    def of(values: tf.Tensor) -> tf.Tensor:
        size = tf.shape(values)[0] // share.count
        own = values[share.index * size : (share.index + 1) * size]
        rows = values.shape[0]
        return tf.ensure_shape(own, [rows and rows // share.count, *values.shape[1:]])

    return in_parallel(batches, lambda *batch: tf.nest.map_structure(of, batch))


def divide_by_length(
    groups: tf.data.Dataset, lengths_of: Callable[[tf.Tensor], tf.Tensor], own: slice, seed: int, first: int
) -> tf.data.Dataset:
    """Divides groups of `GROUP` batches of records, from number `first` on, into the batches of `bins.batch_rows`.

    A group is (serialized string [n], keys uint64 [n]); `lengths_of` returns the number of tokens of records. Returns
    the rows `own` of each batch, (string [b], uint64 [b]), and the length of the longest row of the whole batch.
    """

    def divide(group: tf.Tensor, records: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        serialized, keys = records
        lengths = lengths_of(serialized)
        rows = tf.numpy_function(
            lambda lengths, group: batch_rows(lengths, seed, group), [lengths, group], tf.int64, stateful=False
        )
        rows.set_shape([GROUP, serialized.shape[0] // GROUP])
        longest = tf.reduce_max(tf.gather(lengths, rows), axis=1)
        return tf.gather(serialized, rows[:, own]), tf.gather(keys, rows[:, own]), longest

    return in_parallel(groups.enumerate(first), divide).unbatch()


def trimmed(
    inputs: Tensors, targets: Tensors, weights: Tensors, longest: tf.Tensor, config: DataConfig, objective: str
) -> tuple[Tensors, Tensors, Tensors]:
    """Trims rows of a batch like `bins.trimmed`; the error is raised while iterating."""
    longest = tf.clip_by_value(longest, 0, config.max_seq_length)
    width = tf.gather(tf.constant(bin_widths(config)), longest)
    slots = tf.gather(tf.constant(bin_slots(config, objective)), longest)
    beyond = tf.reduce_sum(weights[MLM_LOGITS][:, slots:])
    with tf.control_dependencies([tf.debugging.assert_equal(beyond, 0.0, TOO_MANY)]):
        return cut(inputs, targets, weights, tf.identity(width), slots)
