"""Floating-point operations of a pre-training step, and how many a device does in a second."""

from __future__ import annotations

import time

from keras import ops

from bert_tf.config import BertConfig

# Of the product that is timed, and how often: a tenth of a second or so on two cores.
_SIDE, _REPETITIONS = 2048, 5


def forward_flops(config: BertConfig, length: int, predictions: int) -> int:
    """Returns the operations of one sequence in a forward pass, multiplications and additions of matrices alone.

    Args:
        config: the architecture.
        length: tokens, padding included.
        predictions: masked positions, as many as the batch has room for.
    """
    hidden, inner = config.hidden_dim, config.intermediate_dim
    layer = length * (4 * hidden * hidden + 2 * hidden * inner) + 2 * length * length * hidden
    heads = predictions * hidden * (hidden + config.vocabulary_size) + hidden * hidden + 2 * hidden
    return 2 * (config.num_layers * layer + heads)


def step_flops(config: BertConfig, batch_size: int, length: int, predictions: int) -> int:
    """Returns the operations of a training step: a backward pass takes two forward passes."""
    return 3 * batch_size * forward_flops(config, length, predictions)


def measured_peak(dtype: str) -> float:
    """Returns the operations a second of a large matrix product on this device, in `dtype`: the best of a few."""
    values = ops.ones((_SIDE, _SIDE), dtype)
    best = float("inf")
    for _ in range(_REPETITIONS):
        began = time.perf_counter()
        # Reading one number waits for the whole product; numpy has no bfloat16.
        ops.convert_to_numpy(ops.cast(ops.matmul(values, values)[0, 0], "float32"))
        best = min(best, time.perf_counter() - began)
    return 2 * _SIDE**3 / best
