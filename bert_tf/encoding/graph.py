"""Parts that the graphs of all heads share: padding, slices, and rows that run in parts.

Shape legend: N rows, S sequence.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_tf.data.schema import TOKEN_IDS
from bert_tf.text.vocabulary import Vocabulary

Outputs = dict[str, tf.Tensor]
# Enough rows to keep a processor busy.
ROWS_AT_ONCE = 32
# Text rows are padded to a multiple of this length; see `padded_rows`.
COLUMNS = 8
# Rows of the model for one request: windows of long texts, choices. A few megabytes of text could take hours.
MAX_MODEL_ROWS = 4096


def require(condition: tf.Tensor, rule: str, received: list[tf.Tensor]) -> tf.Operation:
    """Returns the check of a condition, with the rule and the received values in its error."""
    return tf.debugging.Assert(condition, [rule, "Received:", *received], summarize=8)


def checked_row_count(rows: tf.Tensor, name: str) -> tf.Operation:
    """Returns the check that text input `name` makes at most `MAX_MODEL_ROWS` rows."""
    rule = f"{name} must make at most {MAX_MODEL_ROWS} rows of the model's length."
    return require(rows <= MAX_MODEL_ROWS, rule, [rows])


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


def padded_rows(rows: Outputs, vocabulary: Vocabulary, max_sequence_length: int) -> Outputs:
    """Pads the model's inputs (B, S) until S is a multiple of `COLUMNS`, but at most `max_sequence_length`.

    oneDNN prepares a product for each shape, and TensorFlow keeps up to 1,024 of them in each thread. With few lengths
    they are prepared once; with all lengths they would fill hundreds of megabytes and be prepared again and again.
    An empty batch has no columns, and attention over zero columns returns a batch of one, so S is never zero.

    Args:
        rows: token_ids, segment_ids and padding_mask.
        vocabulary: provides `[PAD]`.
        max_sequence_length: largest S.
    """
    longest = tf.maximum(tf.shape(rows[TOKEN_IDS])[1], 1)
    columns = tf.minimum((longest + COLUMNS - 1) // COLUMNS * COLUMNS, max_sequence_length)
    missing = [[0, 0], [0, columns - tf.shape(rows[TOKEN_IDS])[1]]]
    fillers = {TOKEN_IDS: vocabulary.pad_id}
    return {name: tf.pad(ids, missing, constant_values=fillers.get(name, 0)) for name, ids in rows.items()}
