"""What a checkpoint of any form is, once its form is understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import BertConfig, ConfigError
from bert_tf.conversion.tensors import ConversionError, Heads, Tensor
from bert_tf.models.preset_files import check_finite
from bert_tf.text.vocabulary import Vocabulary

# Number formats that a checkpoint may be kept in, widest first.
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, its arrays still on disk.

    Args:
        form: one of `forms.FORMS`.
        path: where it was read from.
        config: the encoder's architecture.
        heads: what stands on it.
        tensors: by the original's names, in the order of `tensors.expected_shapes`.
        vocabulary: as long as the token embedding, `padding_tokens` included; None where the form has none.
        lowercase: whether text is lower-cased; None where nothing says so.
        dtype: the number format most of it is kept in, one of `DTYPES`.
        labels: names of the task's classes, in the order of their ids; None where they have none.
        step: of the training that wrote it; None where nothing says so.
        classifier_dropout: rate before the task's head; None where nothing says so.
        left_out: names of what the source holds and a model does not, such as optimizer slots.
        info: what else the source says of itself and a preset should remember.
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
        """Returns one tensor in the original's layout, float32, C-contiguous.

        Raises:
            ConversionError: where the tensor holds NaN or infinity.
        """
        tensor = self.tensors[name]
        array = np.ascontiguousarray(tensor.read(), dtype=np.float32)
        try:
            check_finite(array, tensor.name, self.path)
        except ConfigError as error:
            raise ConversionError(str(error)) from error
        return array

    def parameters(self) -> int:
        """Returns the number of all weights."""
        return sum(int(np.prod(tensor.shape)) for tensor in self.tensors.values())
