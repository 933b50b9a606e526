"""Runs the `ids` signature of an exported version in place of the Keras model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

from bert_tf.data.schema import TOKEN_IDS


class IdsModel:
    """A function of NumPy arrays with the same outputs as `Backend.compile_predict` of a task's model.

    Args:
        folder: folder with saved_model.pb, exported from a fine-tuned preset.
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
