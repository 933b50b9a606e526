"""Order and batches of encoded rows, as `tf.data`.

Shape legend: N rows, B batch, S sequence.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.input.bins import GROUP
from bert_tf.data.input.dataset import Batches
from bert_tf.data.randomness import stream_keys
from bert_tf.data.schema import PADDING_MASK, SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows

# Random stream of the order of an epoch.
_EPOCH_STREAM = 21
# Inputs, targets and weights of some rows, in this order; targets and weights may be missing.
Batch = tuple[Any, ...]


def dataset_of_rows(
    rows: EncodedRows,
    batch_size: int,
    make: Callable[[np.ndarray, int], Batch],
    shuffle: bool = False,
    by_token: bool = False,
) -> tf.data.Dataset:
    """Returns the batches of an epoch; with `shuffle`, each iteration is another epoch in another order.

    Args:
        rows: the rows.
        batch_size: B; one batch may have fewer rows.
        make: returns the batch of some row numbers in an epoch.
        shuffle: whether to shuffle the rows, in the order of `epoch_order`.
        by_token: whether the width of the targets varies.
    """
    seed = int(np.random.randint(2**31)) if shuffle else 0
    epochs = itertools.count()

    def batches() -> Iterator[Batch]:
        epoch = next(epochs) if shuffle else 0
        shuffled = shuffle and epoch_order(rows.lengths, batch_size, seed, epoch, fill=False)
        for batch in shuffled or in_order(len(rows), batch_size):
            yield _unwrapped(make(batch, epoch))

    example = _unwrapped(make(np.arange(min(batch_size, len(rows))), 0))
    return _dataset(batches, example, -(-len(rows) // batch_size), by_token)


def mapped(
    dataset: tf.data.Dataset, convert: Callable[[Any, int], Batch], by_token: bool, training: bool
) -> tf.data.Dataset:
    """Returns a dataset with each batch converted in Python.

    Args:
        dataset: batches of texts.
        convert: returns the batch of model inputs for an element and the number of elements before it: in this
            iteration or, for training, in all iterations.
        by_token: whether the width of the targets varies.
        training: whether to count the elements over all iterations.
    """
    counted = itertools.count()

    def batches() -> Iterator[Batch]:
        numbers = counted if training else itertools.count()
        for element in dataset:
            yield _unwrapped(convert(element, next(numbers)))

    return _dataset(batches, next(batches()), int(dataset.cardinality()), by_token)


def _unwrapped(batch: Batch) -> Any:
    """Returns the inputs alone if there are no targets."""
    return batch[0] if len(batch) == 1 else batch


def _dataset(batches: Callable[[], Iterator[Any]], example: Any, count: int, by_token: bool) -> tf.data.Dataset:
    def spec(values: np.ndarray, static: bool = False) -> tf.TensorSpec:
        # Classes of one-hot labels have a fixed number; the width of inputs and of targets by token varies.
        shape = [None, *(values.shape[1:] if static else [None] * (np.ndim(values) - 1))]
        return tf.TensorSpec(shape, np.asarray(values).dtype)

    inputs, *targets = example if isinstance(example, tuple) else (example,)
    parts = [tf.nest.map_structure(spec, inputs)]
    parts += [tf.nest.map_structure(functools.partial(spec, static=not by_token), part) for part in targets]
    signature = tuple(parts) if isinstance(example, tuple) else parts[0]
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    if count >= 0:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
    return dataset.prefetch(4)


def batches_in_epoch(rows: EncodedRows, batch_size: int) -> int:
    """Returns the number of batches in an epoch; the last batch is filled up from the epoch's beginning."""
    return math.ceil(len(rows) / batch_size)


def training_batches(rows: EncodedRows, batch_size: int, seed: int, start_step: int = 0) -> tf.data.Dataset:
    """Returns endless batches of rows of similar length. Their order is a function of (seed, step).

    Each epoch shuffles all rows and cuts them into groups of `GROUP` batches. In a group, rows are sorted by length and
    cut into batches, and the batches are shuffled. Elements are (inputs, targets, weights); targets and weights are
    single tensors if the model has one output. The first `start_step` batches are skipped.
    """

    def numpy_batches() -> Iterator[tuple]:
        epoch, skipped = divmod(start_step, batches_in_epoch(rows, batch_size))
        while True:
            for batch in epoch_order(rows.lengths, batch_size, seed, epoch)[skipped:]:
                inputs, *further = rows.batch(batch)
                yield inputs, *(arrays.get(SINGLE_OUTPUT, arrays) for arrays in further)
            epoch, skipped = epoch + 1, 0

    return _as_dataset(Batches(numpy_batches))


def epoch_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int, fill: bool = True) -> Any:
    """Returns the rows of every batch of an epoch, counted from 0.

    Args:
        lengths: tokens of each row, int (N,).
        batch_size: number of rows in a batch.
        seed: seed of the order.
        epoch: number of the epoch.
        fill: True fills up the last batch from the epoch's beginning: int64 (batches, batch_size). False leaves one
            batch with fewer rows, unless all are full.
    """
    count = len(lengths)
    order = np.argsort(stream_keys(seed, _EPOCH_STREAM, epoch, np.arange(count)), kind="stable")
    if fill:
        order = order[np.arange(math.ceil(count / batch_size) * batch_size) % count]
    batches: list[np.ndarray] = []
    for begin in range(0, len(order), GROUP * batch_size):
        group = order[begin : begin + GROUP * batch_size]
        by_length = group[np.argsort(lengths[group], kind="stable")]
        cut = [by_length[first : first + batch_size] for first in range(0, len(group), batch_size)]
        keys = stream_keys(seed, _EPOCH_STREAM + 1, epoch, begin + np.arange(len(cut)))
        batches += [cut[number] for number in np.argsort(keys, kind="stable")]
    return np.stack(batches) if fill else batches


def in_order(count: int, batch_size: int) -> list[np.ndarray]:
    """Returns the rows of every batch of `count` rows in their order; the last batch may have fewer."""
    return [np.arange(begin, min(begin + batch_size, count)) for begin in range(0, count, batch_size)]


def _as_dataset(batches: Batches) -> tf.data.Dataset:
    example = next(iter(batches))
    mask = example[0][PADDING_MASK]
    along, width = mask.ndim - 1, mask.shape[-1]

    def spec(values: np.ndarray) -> tf.TensorSpec:
        shape = [None if axis == along and size == width else size for axis, size in enumerate(values.shape)]
        return tf.TensorSpec(shape, values.dtype)

    signature = tf.nest.map_structure(spec, example)
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature).prefetch(4)
