"""Evaluation of an export: official metrics and latency of the exported graph and of its preset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.data.schema import TOKEN_IDS
from bert_tf.encoding.rows import Model
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor


class ExportEvaluation:
    """Predicts a development file with the preset in float32 and with the exported graph.

    Both take the same rows of ids, so that only the models differ. The verification of the export checks the
    tokenization of the graph.

    Args:
        preset: preset of a task, or output directory of a run.
        data: labelled file in the task's format.
        max_sequence_length: maximum sequence length of the export; None means the task's.

    Raises:
        ConfigError: as for `TaskPredictor`.
        ValueError: as for `TaskPredictor`; or if the file is invalid or empty, or the export has shorter rows than the
            task.
    """

    def __init__(self, preset: Path, data: Path, max_sequence_length: int | None = None) -> None:
        self._predictor, self._data = TaskPredictor(preset), data
        length = self._predictor.max_sequence_length
        if max_sequence_length is not None and max_sequence_length < length:
            raise ValueError(
                f"`--max_sequence_length` must be at least the task's {length} with `--evaluate`. "
                f"Received: {max_sequence_length}"
            )
        self._examples = list(self._predictor.task.read(data, InputErrors()))
        if not self._examples:
            raise ValueError(f"{data}: must hold at least one example.")

    def __call__(self, folder: Path) -> dict[str, Any]:
        """Evaluates an exported version.

        Args:
            folder: directory with saved_model.pb.

        Returns:
            `data`, `examples`, `metric` (name of the task's official metric), and for each of `preset` and `exported`
            its `metrics` and `milliseconds_per_row` of the model alone.
        """
        from bert_tf.export.inference import IdsModel

        task = self._predictor.task
        return {
            "data": str(self._data),
            "examples": len(self._examples),
            "metric": task.metric,
            "preset": self._measure(_Timed(self._predictor.model)),
            "exported": self._measure(_Timed(IdsModel(folder))),
        }

    def _measure(self, model: _Timed) -> dict[str, Any]:
        predictor = self._predictor.with_model(model)
        # The first call of a graph is slow, so it is not timed.
        predictor.predict_examples(self._examples[:1])
        model.seconds, model.rows = 0.0, 0
        answers = predictor.predict_examples(self._examples)
        metrics = predictor.task.score(self._examples, answers)
        return {"metrics": metrics, "milliseconds_per_row": 1000 * model.seconds / model.rows}


class _Timed:
    """A model that counts its rows and measures its time in seconds."""

    def __init__(self, model: Model) -> None:
        self._model, self.seconds, self.rows = model, 0.0, 0

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Any:
        began = time.perf_counter()
        outputs = self._model(inputs)
        self.seconds += time.perf_counter() - began
        self.rows += len(inputs[TOKEN_IDS])
        return outputs
