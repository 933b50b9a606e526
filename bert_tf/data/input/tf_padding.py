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


def cut_by_length(
    groups: tf.data.Dataset, config: DataConfig, seed: int, first: int, objective: str
) -> tf.data.Dataset:
    """Divides groups of `GROUP` batches, from number `first` on, into the trimmed batches of `bins.batch_rows`."""

    def divide(group: tf.Tensor, batch: Any) -> Any:
        lengths = tf.reduce_sum(batch[0][PADDING_MASK], axis=1)
        rows = tf.numpy_function(
            lambda lengths, group: batch_rows(lengths, seed, group), [lengths, group], tf.int64, stateful=False
        )
        rows.set_shape([GROUP, lengths.shape[0] // GROUP])
        return tf.nest.map_structure(lambda values: tf.gather(values, rows), batch)

    return in_parallel(
        groups.enumerate(first).map(divide).unbatch(), partial(_trimmed, config=config, objective=objective)
    )


def _trimmed(
    inputs: Tensors, targets: Tensors, weights: Tensors, config: DataConfig, objective: str
) -> tuple[Tensors, Tensors, Tensors]:
    """Trims a batch like `bins.trimmed`; the error is raised while iterating."""
    longest = tf.reduce_max(tf.reduce_sum(inputs[PADDING_MASK], axis=1))
    width = tf.gather(tf.constant(bin_widths(config)), longest)
    slots = tf.gather(tf.constant(bin_slots(config, objective)), longest)
    beyond = tf.reduce_sum(weights[MLM_LOGITS][:, slots:])
    with tf.control_dependencies([tf.debugging.assert_equal(beyond, 0.0, TOO_MANY)]):
        return cut(inputs, targets, weights, tf.identity(width), slots)
