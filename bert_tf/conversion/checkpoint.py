"""Checkpoints in a common representation, independent of the file format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig, ConfigError
from bert_tf.conversion.tensors import ConversionError, Heads, Tensor
from bert_tf.models.weights import check_finite
from bert_tf.text.vocabulary import Vocabulary

# Dtypes that a checkpoint may be stored in, widest first.
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose arrays are read on demand.

    Args:
        form: format, one of `formats.registry.FORMS`.
        path: path that the checkpoint was read from.
        config: architecture of the encoder.
        heads: heads on the encoder.
        tensors: tensors by the original's names, in the order of `tensors.expected_shapes`.
        vocabulary: vocabulary of the length of the token embedding, padding included; None if the format has none.
        lowercase: whether text is lower-cased; None if unknown.
        dtype: dtype of most tensors, one of `DTYPES`.
        labels: class names of the task in the order of their ids; None if they have no names.
        step: training step of the checkpoint; None if unknown.
        classifier_dropout: dropout rate before the head of the task; None if unknown.
        left_out: names of the parts of the source that a model does not hold, such as optimizer slots.
        info: further metadata of the source, which a preset keeps.
    """

    form: str
    path: Path
    config: BertConfig
    heads: Heads
    tensors: Mapping[str, Tensor]
    vocabulary: Vocabulary | None = None
    lowercase: bool | None = None
    dtype: str = "float32"
    labels: tuple[str, ...] | None = None
    step: int | None = None
    classifier_dropout: float | None = None
    left_out: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> np.ndarray:
        """Returns one tensor in the original's layout as a C-contiguous float32 array.

        Args:
            name: the original's name of the tensor.

        Raises:
            ConversionError: if the tensor holds NaN or infinity.
        """
        tensor = self.tensors[name]
        array = np.ascontiguousarray(tensor.read(), dtype=np.float32)
        try:
            check_finite(array, tensor.name, self.path)
        except ConfigError as error:
            raise ConversionError(str(error)) from error
        return array

    def parameters(self) -> int:
        """Returns the number of parameters."""
        return sum(int(np.prod(tensor.shape)) for tensor in self.tensors.values())
