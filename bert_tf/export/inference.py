"""A preset's answers in Python: the serving signature itself, called on batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.export.kinds.base import DEFAULT_SIGNATURE
from bert_tf.export.signatures import signatures_of
from bert_tf.models import load_preset


class Predictor:
    """Answers what the preset's exported `serving_default` would answer to columns of texts.

    Args:
        preset: a preset, or the output of a run.
        top_k: fill-mask: candidates for every [MASK].

    Raises:
        ConfigError: as `signatures_of`, and for a preset whose inputs are more than a text a row and column.
    """

    def __init__(self, preset: str | Path, *, top_k: int = 5) -> None:
        self._signatures = signatures_of(load_preset(preset), top_k=top_k)
        endpoint = self._signatures.endpoints[DEFAULT_SIGNATURE]
        for spec in endpoint.inputs:
            if spec.shape.rank != 1:
                raise ConfigError(f"lines of text have no place for the list `{spec.name}` of each row.")
        self.texts = self._signatures.texts
        self._answer = tf.function(endpoint.function, input_signature=endpoint.inputs)

    def __call__(self, *texts: Sequence[str]) -> list[dict[str, Any]]:
        """Answers one batch.

        Args:
            *texts: as many sequences of texts of equal length as `texts` has names.

        Returns:
            A dictionary a row, as `row` of the preset's `bert_tf.export.kinds` gives it: for example `label` and
            `probabilities` by label name, or `masks` with the candidates for each [MASK].

        Raises:
            ValueError: for another number of columns than the model has.
        """
        if len(texts) != len(self.texts):
            raise ValueError(f"the preset takes {len(self.texts)} text column(s). Received: {len(texts)}")
        outputs = self._answer(*(tf.constant(list(column), tf.string) for column in texts))
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return [
            self._signatures.row({name: array[row] for name, array in arrays.items()}) for row in range(len(texts[0]))
        ]
