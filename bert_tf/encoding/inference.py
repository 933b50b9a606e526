"""Runs a model over encoded rows in length-sorted batches and restores the original order.

Shape legend: N rows, T tokens of all rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK, SINGLE_OUTPUT
from bert_tf.encoding.heads import Answer, Example, Head
from bert_tf.encoding.rows import Arrays, EncodedRows, Model

# Larger batches are no faster on a CPU; smaller ones do not amortize the cost of a model call.
_MOST_TOKENS, _LEAST_TOKENS = 8192, 512
_SHARE_OF_MEMORY = 0.25


def outputs_of(
    model: Model,
    rows: EncodedRows,
    config: BertConfig,
    by_token: bool,
    done: Callable[[int], None] = lambda _: None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns the outputs of `model`, a function of NumPy arrays, for all rows: float32 arrays by name.

    Arrays are (N, ...) in the order of the rows or, with `by_token`, (T, ...) in the order of `rows.token_ids`. The
    only tensor of a model is named `SINGLE_OUTPUT`. `config` serves to estimate the memory of a batch; `done` is called
    with the number of rows after each batch. `batch_size` is the maximum number of rows in a batch, None for any.
    """
    arrays: Arrays = {}
    for batch in batches_by_length(rows, most_tokens(config, rows.longest), most_rows=batch_size):
        inputs = rows.inputs(batch)
        outputs = model(inputs)
        for name, values in (outputs if isinstance(outputs, dict) else {SINGLE_OUTPUT: outputs}).items():
            shape = (len(rows.token_ids), *values.shape[2:]) if by_token else (len(rows), *values.shape[1:])
            array = arrays.setdefault(name, np.zeros(shape, np.float32))
            if by_token:
                begins = rows.row_splits[batch][:, None]
                mask = inputs[PADDING_MASK] == 1
                array[(begins + np.arange(mask.shape[1]))[mask]] = values[mask]
            else:
                array[batch] = values
        done(len(batch))
    return arrays


def compiled(model: keras.Model) -> Model:
    """Returns a model of TensorFlow as a graph that takes batches of any size, on one device."""
    specification = {
        name: tf.TensorSpec([None] * len(tensor.shape), tensor.dtype, name=name) for name, tensor in model.input.items()
    }
    call = tf.function(lambda inputs: model(inputs, training=False), input_signature=[specification])
    return lambda inputs: tf.nest.map_structure(lambda output: output.numpy(), call(dict(inputs)))


def answers_of(
    head: Head[Example, Answer],
    examples: Sequence[Example],
    rows: EncodedRows,
    model: Model,
    config: BertConfig,
    batch_size: int | None = None,
) -> list[Answer]:
    """Returns the predictions of a head for examples, in their order.

    Args:
        head: the head.
        examples: the examples.
        rows: their rows.
        model: function of NumPy arrays.
        config: configuration of the encoder.
        batch_size: maximum number of rows in a batch; by default the free memory determines it.
    """
    outputs = outputs_of(model, rows, config, head.by_token, batch_size=batch_size)
    return head.answers(examples, rows, outputs)


def batches_by_length(
    rows: EncodedRows, tokens: int, begin: int = 0, most_rows: int | None = None
) -> Iterator[np.ndarray]:
    """Yields batches of row numbers, longest first, from `begin`: at most `tokens` tokens with padding, or one row.

    `most_rows` is the maximum number of rows in a batch, None for any.
    """
    order = np.argsort(-rows.lengths, kind="stable")
    while begin < len(order):
        width = rows.width(order[begin : begin + 1]) * rows.choices
        count = max(1, min(tokens // width, most_rows or len(order)))
        yield order[begin : begin + count]
        begin += count


def most_tokens(config: BertConfig, longest: int) -> int:
    """Returns the maximum tokens of a batch of rows of up to `longest` tokens, by a share of the free memory."""
    # Float32: the widest layer twice, with gates once more, six of the hidden width, and the attention of a token to
    # all others twice.
    widest = (3 if config.feed_forward == "gated" else 2) * config.intermediate_dim
    per_token = 4 * (widest + 6 * config.hidden_dim + 2 * config.num_heads * longest)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(np.clip(_SHARE_OF_MEMORY * free / per_token, _LEAST_TOKENS, _MOST_TOKENS))
