"""Floating-point operations of a pre-training step, and the peak rate of a device."""

from __future__ import annotations

import time
from collections.abc import Callable

from keras import ops

from bert_tf.config import BertConfig
from bert_tf.layers.attention_pattern import AttentionPattern

# Side of the timed matrix product, and repetitions: about a tenth of a second on two cores.
_SIDE, _REPETITIONS = 2048, 5


def forward_flops(config: BertConfig, length: float, predictions: float) -> float:
    """Returns the operations of all matrix products in a forward pass over one sequence, padding included."""
    hidden, inner = config.hidden_dim, config.intermediate_dim
    products = 3 if config.feed_forward == "gated" else 2
    layer = length * (4 * hidden * hidden + products * hidden * inner)
    keys = sum(AttentionPattern.of(config, number).keys_per_query(length) for number in range(1, config.num_layers + 1))
    masked_lm = predictions * hidden * (hidden + config.vocabulary_size)
    next_sentence = hidden * hidden + 2 * hidden if config.pooler else 0
    return 2 * (config.num_layers * layer + 2 * length * keys * hidden + masked_lm + next_sentence)


def step_flops(config: BertConfig, batch_size: float, length: float, predictions: float) -> float:
    """Returns the operations of a training step; a backward pass counts as two forward passes."""
    return 3 * batch_size * forward_flops(config, length, predictions)


class DevicePeak:
    """Peak operations per second of the devices, stated by the manufacturer, or timed if `stated` is 0.

    Other work on the machine makes a timed peak too low, so the peak is at least the highest rate observed.
    """

    def __init__(self, stated: float, timed: Callable[[], float]) -> None:
        self._timed = None if stated else timed
        self.flops = stated or timed()

    def share(self, flops: float, seconds: float) -> float:
        """Returns the share of the peak that `flops` operations in `seconds` use; at most 1 for a measured peak."""
        rate = flops / seconds
        if self._timed and rate > self.flops:
            self.flops = max(rate, self._timed())
        return rate / self.flops


def measured_peak(dtype: str) -> float:
    """Returns the operations per second of a large matrix product on this device in `dtype`, the best of a few runs."""
    values = ops.ones((_SIDE, _SIDE), dtype)
    best = float("inf")
    for _ in range(_REPETITIONS):
        began = time.perf_counter()
        # Reading one number waits for the whole product; numpy has no bfloat16.
        ops.convert_to_numpy(ops.cast(ops.matmul(values, values)[0, 0], "float32"))
        best = min(best, time.perf_counter() - began)
    return 2 * _SIDE**3 / best
