"""Input checks of exported models, as operations of the graph.

A server passes client inputs to the model unchecked: TF Serving feeds tensors without comparing them with the declared
shapes. A string tensor of the wrong shape makes tensorflow-text read out of bounds, and ids outside an embedding table
cause no error on some devices. All rules below are therefore checked at run time and, through control dependencies,
before any operation reads the values. Ranks need `tf.ensure_shape`: the graph optimizer folds other rank tests into
constants because of the declared shape.
"""

from __future__ import annotations

import tensorflow as tf

from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.encoding.graph import checked_row_count, require

# Rows times predictions: with a vocabulary of 30,522 their logits take 1 GB. Without a limit, a few hundred bytes of
# text could take any amount.
MAX_PREDICTIONS = 8192


def checked_texts(texts: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    """Returns one or two string tensors [B] by input name in order, checked to have rank 1 and equal length."""
    columns = [_of_rank(text, 1, name) for name, text in texts.items()]
    if len(columns) == 1:
        return columns
    lengths = [tf.size(column) for column in columns]
    rule = f"{' and '.join(texts)} must have the same number of elements."
    with tf.control_dependencies([require(tf.equal(*lengths), rule, lengths)]):
        return [tf.identity(column) for column in columns]


def checked_examples(examples: tf.Tensor) -> tf.Tensor:
    """Checks that serialized tf.Examples have rank 1, and returns them."""
    return _of_rank(examples, 1, "examples")


def checked_choices(texts: tf.Tensor, choices: tf.Tensor, names: tuple[str, str]) -> tuple[tf.Tensor, tf.Tensor]:
    """Checks texts [B] and their choices [B, N]: N must be at least 1 and B x N at most `MAX_MODEL_ROWS`."""
    texts, choices = _of_rank(texts, 1, names[0]), _of_rank(choices, 2, names[1])
    shape, size = tf.shape(choices), tf.size(texts)
    rule = f"{names[1]} must have as many rows as {names[0]}."
    checks = [
        require(tf.equal(shape[0], size), rule, [shape, size]),
        require(shape[1] >= 1, f"{names[1]} must have at least one column.", [shape]),
        checked_row_count(tf.size(choices), names[1]),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(texts), tf.identity(choices)


def checked_layers(layers: tf.Tensor, texts: tf.Tensor, names: tuple[str, str], count: int) -> tf.Tensor:
    """Checks layer numbers [B, L] int32 of texts [B], which must be in -count..count-1, with L at most `count`.

    Negative numbers count from the end. `count` includes the embedding layer; it bounds the size of the output.
    """
    layers = _of_rank(layers, 2, names[0])
    shape, size = tf.shape(layers), tf.size(texts)
    rule = f"{names[0]} must have as many rows as {names[1]} and at most {count} columns."
    fits = tf.logical_and(tf.equal(shape[0], size), shape[1] <= count)
    with tf.control_dependencies([require(fits, rule, [shape, size]), _within(layers, -count, count - 1, names[0])]):
        return tf.identity(layers)


def checked_ids(
    token_ids: tf.Tensor,
    segment_ids: tf.Tensor,
    padding_mask: tf.Tensor,
    *,
    vocabulary_size: int,
    num_segments: int,
    max_sequence_length: int,
) -> dict[str, tf.Tensor]:
    """Returns the model's three inputs [B, S] int32 by name, with checks of shapes and values.

    S is from 1 to `max_sequence_length`, B may be 0. Token ids lie in 0..vocabulary_size-1, segment ids in
    0..num_segments-1; the padding mask is 1 for tokens and 0 for padding.
    """
    inputs = {
        TOKEN_IDS: _of_rank(token_ids, 2, TOKEN_IDS),
        SEGMENT_IDS: _of_rank(segment_ids, 2, SEGMENT_IDS),
        PADDING_MASK: _of_rank(padding_mask, 2, PADDING_MASK),
    }
    shape = tf.shape(inputs[TOKEN_IDS])
    checks = [_within(shape[1], 1, max_sequence_length, f"the second dimension of {TOKEN_IDS}")]
    for name in (SEGMENT_IDS, PADDING_MASK):
        other = tf.shape(inputs[name])
        rule = f"{name} must have the shape of {TOKEN_IDS}."
        checks.append(require(tf.reduce_all(tf.equal(other, shape)), rule, [other, shape]))
    for name, size in ((TOKEN_IDS, vocabulary_size), (SEGMENT_IDS, num_segments), (PADDING_MASK, 2)):
        checks.append(_within(inputs[name], 0, size - 1, name))
    with tf.control_dependencies(checks):
        return {name: tf.identity(tensor) for name, tensor in inputs.items()}


def checked_positions(mask_positions: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
    """Checks that mask positions [B, P <= S] lie inside `token_ids` [B, S], and B x P is at most `MAX_PREDICTIONS`."""
    mask_positions = _of_rank(mask_positions, 2, MASK_POSITIONS)
    shape, batch_and_length = tf.shape(mask_positions), tf.shape(token_ids)
    rule = f"{MASK_POSITIONS} must have as many rows as {TOKEN_IDS} and no more columns."
    fits = tf.logical_and(tf.equal(shape[0], batch_and_length[0]), shape[1] <= batch_and_length[1])
    checks = [
        require(fits, rule, [shape, batch_and_length]),
        require(tf.size(mask_positions) <= MAX_PREDICTIONS, _too_many(MASK_POSITIONS), [shape]),
        _within(mask_positions, 0, batch_and_length[1] - 1, MASK_POSITIONS),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(mask_positions)


def checked_mask_count(mask_positions: tf.Tensor, name: str) -> tf.Tensor:
    """Checks that `mask_positions` [B, M] of text input `name` are at most `MAX_PREDICTIONS`, and returns them."""
    check = require(
        tf.size(mask_positions) <= MAX_PREDICTIONS, _too_many(f"[MASK]s in {name}"), [tf.shape(mask_positions)]
    )
    with tf.control_dependencies([check]):
        return tf.identity(mask_positions)


def _too_many(name: str) -> str:
    return f"{name}: rows times the most predictions of a row must be at most {MAX_PREDICTIONS}."


def _of_rank(tensor: tf.Tensor, rank: int, name: str) -> tf.Tensor:
    return tf.ensure_shape(tensor, [None] * rank, name=f"{name}_must_have_rank_{rank}")


def _within(values: tf.Tensor, lowest: int, highest: int | tf.Tensor, name: str) -> tf.Operation:
    sound = tf.reduce_all(tf.logical_and(values >= lowest, values <= highest))
    received = [tf.reduce_min(values), tf.reduce_max(values)]
    bound = highest if isinstance(highest, int) else "S-1"
    return require(sound, f"{name} must lie in {lowest}..{bound}; smallest and largest", received)
