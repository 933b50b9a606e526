"""A preset's answers in Python: the serving signature itself, called on batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_tf.export.signatures import DEFAULT_SIGNATURE, Signatures
from bert_tf.models import load_preset


class Predictor:
    """Answers what the preset's exported `serving_default` would answer.

    Args:
        preset: a preset, or the output of a run.
        top_k: fill-mask: candidates for every [MASK].
    """

    def __init__(self, preset: str | Path, *, top_k: int = 5) -> None:
        loaded = load_preset(preset)
        self.kind = loaded.kind
        signatures = Signatures(loaded, top_k=top_k)
        self._labels = signatures.labels
        endpoint = signatures.endpoints[DEFAULT_SIGNATURE]
        self.num_texts = len(endpoint.inputs)
        self._answer = tf.function(endpoint.function, input_signature=endpoint.inputs)

    def __call__(self, *texts: Sequence[str]) -> list[dict[str, Any]]:
        """Answers one batch.

        Args:
            *texts: one sequence of texts, or two of equal length for a model of pairs.

        Returns:
            A dictionary a row: `label` and `probabilities` by label name (classifier), `masks`, for each [MASK]
            its candidates as `token` and `score` (pre-trained model), or `pooled_output` and `mean_output`.

        Raises:
            ValueError: for another number of columns than the model has.
        """
        if len(texts) != self.num_texts:
            raise ValueError(f"the preset takes {self.num_texts} text column(s). Received: {len(texts)}")
        outputs = self._answer(*(tf.constant(list(column), tf.string) for column in texts))
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return [self._row({name: array[row] for name, array in arrays.items()}) for row in range(len(texts[0]))]

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        if self.kind == "BertTextClassifier":
            probabilities = dict(zip(self._labels or (), row["probabilities"].tolist(), strict=True))
            return {"label": row["label"].decode(), "probabilities": probabilities}
        if self.kind == "BertPretrainer":
            return {"masks": list(_candidates(row["tokens"], row["scores"]))}
        return {name: values.tolist() for name, values in row.items()}


def _candidates(tokens: Any, scores: Any) -> Iterator[list[dict[str, Any]]]:
    for pieces, values in zip(tokens, scores, strict=True):
        if pieces[0]:  # what pads a text with fewer masks is empty
            yield [
                {"token": piece.decode(), "score": float(value)} for piece, value in zip(pieces, values, strict=True)
            ]
