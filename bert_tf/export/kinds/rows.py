"""Runs the many rows of one request in parts, so that memory use does not grow with the length of a text.

Shape legend: N rows, S sequence.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_tf.export.kinds.base import Outputs

# Enough rows to keep a processor busy.
ROWS_AT_ONCE = 32


def in_parts(run: Callable[[Outputs], tf.Tensor], rows: Outputs, rank: int, size: int | tf.Tensor) -> tf.Tensor:
    """Returns `run(rows)`, a float32 tensor of a rank, computed for `size` rows at a time.

    `rows` are tensors by name with the same first dimension N, which may be 0; `run` takes a part of them.
    """
    total = tf.shape(next(iter(rows.values())))[0]
    # An empty batch runs once, for its shapes.
    parts = tf.maximum(1, -(-total // size))
    outputs = tf.TensorArray(tf.float32, parts, infer_shape=False, element_shape=[None] * rank)

    def step(number: tf.Tensor, outputs: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        part = {name: tensor[number * size : (number + 1) * size] for name, tensor in rows.items()}
        return number + 1, outputs.write(number, run(part))

    _, outputs = tf.while_loop(lambda number, _: number < parts, step, (0, outputs), parallel_iterations=1)
    return outputs.concat()


def sliced(values: tf.Tensor, begins: tf.Tensor, sizes: tf.Tensor) -> tf.RaggedTensor:
    """Returns `values[begins[n]:begins[n] + sizes[n]]` for every n, ragged (N, None)."""
    return tf.gather(values, tf.ragged.range(begins, begins + sizes))


def within_groups(counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the group of each member and its number within the group, for groups of `counts` members."""
    groups = tf.range(tf.size(counts, out_type=counts.dtype))
    group = tf.repeat(groups, counts)
    return group, tf.range(tf.size(group, out_type=counts.dtype)) - tf.gather(tf.cumsum(counts, exclusive=True), group)
