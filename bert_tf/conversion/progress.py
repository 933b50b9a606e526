"""Progress of a conversion."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import Tensor
from bert_tf.entry.progress import Progress


def watched(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint with tensors that report the progress of reading.

    Args:
        checkpoint: checkpoint of any format; each tensor is read once.
    """
    progress = Progress("parameters", checkpoint.parameters())

    def read(tensor: Tensor) -> np.ndarray:
        array = tensor.read()
        progress.add(array.size)
        return array

    tensors = {name: replace(tensor, read=partial(read, tensor)) for name, tensor in checkpoint.tensors.items()}
    return replace(checkpoint, tensors=tensors)
