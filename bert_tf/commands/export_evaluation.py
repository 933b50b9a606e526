"""What an export costs and wins: the task's official figures of the exported graph beside those of its preset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.data.schema import TOKEN_IDS
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictor import TaskPredictor
from bert_tf.training.backends import Model


class ExportEvaluation:
    """Answers a development file twice, by the preset in float32 and by the exported graph.

    Both take the same rows of ids, so that what differs is the model alone; that the graph makes these ids of text is
    what its verification is for.

    Args:
        preset: of a task, or the output of a run.
        data: a file of the task's own format, with the right answers.
        max_sequence_length: of the export; the task's where None.

    Raises:
        ConfigError, ValueError: as `TaskPredictor`.
        ValueError: if the file is faulty or empty, or the export has shorter rows than the task.
    """

    def __init__(self, preset: Path, data: Path, max_sequence_length: int | None = None) -> None:
        self._answerer, self._data = TaskPredictor(preset), data
        length = self._answerer.max_sequence_length
        if max_sequence_length is not None and max_sequence_length < length:
            raise ValueError(
                f"`--max_seq_length` must be the task's {length} at least where `--evaluate` is given. "
                f"Received: {max_sequence_length}"
            )
        self._examples = list(self._answerer.task.read(data, InputErrors()))
        if not self._examples:
            raise ValueError(f"{data}: no examples.")

    def __call__(self, folder: Path) -> dict[str, Any]:
        """Evaluates an exported version.

        Args:
            folder: holds saved_model.pb.

        Returns:
            `data`, `examples`, `metric` (the name of the task's official figure), and for `preset` and `exported`
            `metrics` and `milliseconds_per_row`, of the model alone.
        """
        from bert_tf.export.exported_model import IdsModel

        task = self._answerer.task
        return {
            "data": str(self._data),
            "examples": len(self._examples),
            "metric": task.metric,
            "preset": self._figures(_Timed(self._answerer.model)),
            "exported": self._figures(_Timed(IdsModel(folder))),
        }

    def _figures(self, model: _Timed) -> dict[str, Any]:
        answerer = self._answerer.with_model(model)
        # The first call of a graph takes its time.
        answerer.answers(self._examples[:1])
        model.seconds, model.rows = 0.0, 0
        answers = answerer.answers(self._examples)
        metrics = answerer.task.score(self._examples, answers)
        return {"metrics": metrics, "milliseconds_per_row": 1000 * model.seconds / model.rows}


class _Timed:
    """A model that counts its rows and seconds."""

    def __init__(self, model: Model) -> None:
        self._model, self.seconds, self.rows = model, 0.0, 0

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Any:
        began = time.perf_counter()
        outputs = self._model(inputs)
        self.seconds += time.perf_counter() - began
        self.rows += len(inputs[TOKEN_IDS])
        return outputs
