"""Predictions in Python: of a preset through its serving signature, and of an exported version through `ids`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

from bert_tf.config import ConfigError
from bert_tf.data.schema import TOKEN_IDS
from bert_tf.export.kinds.base import DEFAULT_SIGNATURE
from bert_tf.export.signatures import signatures_of
from bert_tf.models import load_preset


class Predictor:
    """Predicts from columns of texts, with the same results as the exported `serving_default`.

    `top_k` is the number of candidates for each [MASK]. Raises ConfigError as `signatures_of` does, and for a preset
    with an input that is a list of texts (multiple choice).
    """

    def __init__(self, preset: str | Path, *, top_k: int = 5) -> None:
        self._signatures = signatures_of(load_preset(preset), top_k=top_k)
        endpoint = self._signatures.endpoints[DEFAULT_SIGNATURE]
        for spec in endpoint.inputs:
            if spec.shape.rank != 1:
                raise ConfigError(f"a line of text cannot hold a list. Received: the list input `{spec.name}`")
        self.texts = self._signatures.texts
        self._answer = tf.function(endpoint.function, input_signature=endpoint.inputs)

    def __call__(self, *texts: Sequence[str]) -> list[dict[str, Any]]:
        """Returns a dictionary for each row of one sequence of texts for each name in `texts`, all of equal length.

        The dictionary is that of `row` in the preset's `bert_tf.export.kinds`: for example `label` and `probabilities`
        by label name, or `masks` with the candidates for each [MASK]. Raises ValueError for another number of columns.
        """
        if len(texts) != len(self.texts):
            raise ValueError(f"the preset takes {len(self.texts)} text column(s). Received: {len(texts)}")
        outputs = self._answer(*(tf.constant(list(column), tf.string) for column in texts))
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return [
            self._signatures.row({name: array[row] for name, array in arrays.items()}) for row in range(len(texts[0]))
        ]


class IdsModel:
    """Runs the `ids` signature of a version, exported from a fine-tuned preset, in place of the Keras model.

    It is a function of NumPy arrays with the same outputs as `Backend.compile_predict` of a task's model.
    """

    def __init__(self, folder: Path) -> None:
        self._loaded = tf.saved_model.load(str(folder))
        self._signature = self._loaded.signatures["ids"]
        self._specs = self._signature.structured_input_signature[1]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray | dict[str, np.ndarray]:
        """Returns logits or numbers; a dictionary by name if the model has several outputs."""
        *rows, length = inputs[TOKEN_IDS].shape
        # Multiple choice has an axis for the choices, which the signature takes as further rows.
        flat = {name: tf.constant(inputs[name].reshape(-1, length), spec.dtype) for name, spec in self._specs.items()}
        outputs = {name: tensor.numpy() for name, tensor in self._signature(**flat).items()}
        if "number" in outputs:
            return outputs["number"][:, np.newaxis]
        if "logits" in outputs:
            return outputs["logits"].reshape(*rows, *outputs["logits"].shape[1:])
        return outputs
