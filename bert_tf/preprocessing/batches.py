"""Batches of encoded rows as `tf.data`, for `keras.Model.fit` and its relatives.

Shape legend: N rows, B batch, S sequence.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.input.bins import GROUP
from bert_tf.tasks.rows import EncodedRows

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
        batch_size: B; the last batch may have fewer rows.
        make: returns the batch of some row numbers in an epoch.
        shuffle: whether to shuffle the rows. Batches then have rows of similar length, as in `tasks.rows`.
        by_token: whether the width of the targets varies.
    """
    seed = int(np.random.randint(2**31)) if shuffle else 0
    epochs = itertools.count()

    def batches() -> Iterator[Batch]:
        epoch = next(epochs) if shuffle else 0
        numbers = np.arange(len(rows))
        order = _shuffled(rows.lengths, batch_size, [seed, epoch]) if shuffle else _in_order(numbers, batch_size)
        for batch in order:
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


def _in_order(numbers: np.ndarray, batch_size: int) -> list[np.ndarray]:
    return [numbers[begin : begin + batch_size] for begin in range(0, len(numbers), batch_size)]


def _shuffled(lengths: np.ndarray, batch_size: int, seed: list[int]) -> list[np.ndarray]:
    """Returns the shuffled batches of an epoch. Rows are sorted by length in each group of `GROUP` batches."""
    random = np.random.default_rng(seed)
    groups = _in_order(random.permutation(len(lengths)), GROUP * batch_size)
    batches = [
        batch for group in groups for batch in _in_order(group[np.argsort(lengths[group], kind="stable")], batch_size)
    ]
    return [batches[number] for number in random.permutation(len(batches))]
