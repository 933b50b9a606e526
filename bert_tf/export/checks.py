"""Rules for what reaches an exported model from outside, as operations of its graph.

A server hands on whatever a client sent: TF Serving feeds tensors without looking at the declared shapes. A
mis-shaped string tensor makes tensorflow-text read out of bounds, and ids outside a table are answered silently
on some devices. So every rule below is checked at run time and, through control dependencies, before anything
reads the values. Ranks need `tf.ensure_shape`: the optimizer folds any other test of a rank into a constant,
because the declared shape already promises it.
"""

from __future__ import annotations

import tensorflow as tf

from bert_tf.data.schema import MASK_POSITIONS, PADDING_MASK, SEGMENT_IDS, TOKEN_IDS

# Rows of the model for one request: windows of long texts, choices. A few megabytes of text could ask for hours.
MAX_ROWS = 4096
# Rows times predictions: with a vocabulary of 30,522 their logits take 1 GB. A few hundred bytes of text could ask
# for any amount.
MAX_PREDICTIONS = 8192


def checked_texts(texts: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    """Returns the text inputs once they are known to be rank 1 and equally long.

    Args:
        texts: one or two string tensors [B] by input name.

    Returns:
        The same tensors, in order; using them runs the checks.
    """
    columns = [_of_rank(text, 1, name) for name, text in texts.items()]
    if len(columns) == 1:
        return columns
    lengths = [tf.size(column) for column in columns]
    rule = f"{' and '.join(texts)} must have the same number of elements."
    with tf.control_dependencies([_require(tf.equal(*lengths), rule, lengths)]):
        return [tf.identity(column) for column in columns]


def checked_examples(examples: tf.Tensor) -> tf.Tensor:
    """Returns serialized tf.Examples once they are known to be rank 1."""
    return _of_rank(examples, 1, "examples")


def checked_choices(texts: tf.Tensor, choices: tf.Tensor, names: tuple[str, str]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns texts [B] and the choices for each [B, N], once N is at least 1 and B x N at most `MAX_ROWS`.

    Args:
        texts: string [B].
        choices: string [B, N].
        names: of both inputs.
    """
    texts, choices = _of_rank(texts, 1, names[0]), _of_rank(choices, 2, names[1])
    shape, size = tf.shape(choices), tf.size(texts)
    rule = f"{names[1]} must have as many rows as {names[0]}."
    checks = [
        _require(tf.equal(shape[0], size), rule, [shape, size]),
        _require(shape[1] >= 1, f"{names[1]} must have at least one column.", [shape]),
        checked_row_count(tf.size(choices), names[1]),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(texts), tf.identity(choices)


def checked_layers(layers: tf.Tensor, texts: tf.Tensor, names: tuple[str, str], count: int) -> tf.Tensor:
    """Returns numbers of layers [B, L] int32, from -count to count - 1, once they are there.

    Args:
        layers: numbers, negative ones from the end; L at most `count`, which bounds the answer.
        texts: string [B], already checked.
        names: of both inputs.
        count: outputs that there are, the embeddings among them.
    """
    layers = _of_rank(layers, 2, names[0])
    shape, size = tf.shape(layers), tf.size(texts)
    rule = f"{names[0]} must have as many rows as {names[1]} and at most {count} columns."
    fits = tf.logical_and(tf.equal(shape[0], size), shape[1] <= count)
    with tf.control_dependencies([_require(fits, rule, [shape, size]), _within(layers, -count, count - 1, names[0])]):
        return tf.identity(layers)


def checked_row_count(rows: tf.Tensor, name: str) -> tf.Operation:
    """Returns the check that text input `name` asks for at most `MAX_ROWS` rows of the model."""
    return _require(rows <= MAX_ROWS, f"{name} must make at most {MAX_ROWS} rows of the model's length.", [rows])


def checked_ids(
    token_ids: tf.Tensor,
    segment_ids: tf.Tensor,
    padding_mask: tf.Tensor,
    *,
    vocabulary_size: int,
    num_segments: int,
    max_sequence_length: int,
) -> dict[str, tf.Tensor]:
    """Returns the model's three inputs once shapes and values are known to be sound.

    Args:
        token_ids: [B, S] int32 in 0..vocabulary_size-1; S from 1 to `max_sequence_length`, B may be 0.
        segment_ids: [B, S] int32 in 0..num_segments-1.
        padding_mask: [B, S] int32, 1 where there is a token, else 0.
        vocabulary_size: V, number of word pieces.
        num_segments: number of segment embeddings.
        max_sequence_length: longest S.

    Returns:
        The inputs by name; using any of them runs all checks.
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
        checks.append(_require(tf.reduce_all(tf.equal(other, shape)), rule, [other, shape]))
    for name, size in ((TOKEN_IDS, vocabulary_size), (SEGMENT_IDS, num_segments), (PADDING_MASK, 2)):
        checks.append(_within(inputs[name], 0, size - 1, name))
    with tf.control_dependencies(checks):
        return {name: tf.identity(tensor) for name, tensor in inputs.items()}


def checked_positions(mask_positions: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
    """Returns `mask_positions` [B, P] int32 once all lie inside the sequence.

    Args:
        mask_positions: positions to predict; P at most S, and B x P at most `MAX_PREDICTIONS`.
        token_ids: [B, S] int32, already checked.
    """
    mask_positions = _of_rank(mask_positions, 2, MASK_POSITIONS)
    shape, batch_and_length = tf.shape(mask_positions), tf.shape(token_ids)
    rule = f"{MASK_POSITIONS} must have as many rows as {TOKEN_IDS} and no more columns."
    fits = tf.logical_and(tf.equal(shape[0], batch_and_length[0]), shape[1] <= batch_and_length[1])
    checks = [
        _require(fits, rule, [shape, batch_and_length]),
        _require(tf.size(mask_positions) <= MAX_PREDICTIONS, _too_many(MASK_POSITIONS), [shape]),
        _within(mask_positions, 0, batch_and_length[1] - 1, MASK_POSITIONS),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(mask_positions)


def checked_mask_count(mask_positions: tf.Tensor, name: str) -> tf.Tensor:
    """Returns `mask_positions` [B, M], found in text input `name`, once they are few enough."""
    check = _require(
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
    return _require(sound, f"{name} must lie in {lowest}..{bound}; smallest and largest", received)


def _require(condition: tf.Tensor, rule: str, received: list[tf.Tensor]) -> tf.Operation:
    return tf.debugging.Assert(condition, [rule, "Received:", *received], summarize=8)
