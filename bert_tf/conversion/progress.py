"""Logs the progress of a conversion."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import Tensor

logger = logging.getLogger(__name__)
_SECONDS_BETWEEN_LINES = 2.0


def watched(checkpoint: Checkpoint, clock: Callable[[], float] = time.monotonic) -> Checkpoint:
    """Returns the checkpoint with tensors that log the progress of reading: count, rate and time left.

    Args:
        checkpoint: checkpoint of any format; each tensor is read once.
        clock: returns the time in seconds.
    """
    progress = _Progress(len(checkpoint.tensors), checkpoint.parameters(), clock)
    return replace(
        checkpoint,
        tensors={
            name: replace(tensor, read=partial(progress.read, tensor)) for name, tensor in checkpoint.tensors.items()
        },
    )


class _Progress:
    def __init__(self, tensors: int, parameters: int, clock: Callable[[], float]) -> None:
        self._tensors, self._parameters, self._clock = tensors, parameters, clock
        self._done = self._read = 0
        self._began = self._told = clock()

    def read(self, tensor: Tensor) -> np.ndarray:
        array = tensor.read()
        self._done += 1
        self._read += array.size
        now = self._clock()
        if now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            rate = self._read / (now - self._began)
            logger.info(
                "  %d/%d tensors, %.1f of %.1f million parameters, %.1f million/s, eta %.0f s",
                *(self._done, self._tensors, self._read / 1e6, self._parameters / 1e6, rate / 1e6),
                max(0, self._parameters - self._read) / rate,
            )
        return array
