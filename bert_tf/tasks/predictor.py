"""Predictions of fine-tuned presets."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from bert_tf.config import local_path
from bert_tf.entry.progress import Progress
from bert_tf.models import load_preset
from bert_tf.models.preset_header import TASK_NAME
from bert_tf.tasks.inference import outputs_of
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import task_of, with_default_task
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.backends import Model, current_backend

# Examples held in memory at once.
_PART = 2048


class TaskPredictor:
    """Predicts with a fine-tuned preset.

    Args:
        preset: preset of a task, run, `RUN@STEP`, or checkpoint of another program with a head for texts, tokens or
            choices; see `load_preset`. The task of such a head is `classify`, `regression`, `ner` or `swag`.

    Raises:
        ConfigError: if `load_preset` cannot load the preset.
        ValueError: for a preset without a task, or with a task that is not in `registry.TASKS`.

    Example:
        >>> from bert_tf.tasks.input_errors import InputErrors
        >>> predictor = bert_tf.TaskPredictor("runs/my_task")  # written by `bert-tf finetune classify`
        >>> predictor.answer_file("my_task/dev.tsv", "predictions.jsonl", InputErrors())
        4
    """

    def __init__(self, preset: str | Path) -> None:
        loaded = load_preset(preset)
        if loaded.task is None:
            raise ValueError(
                f"{preset}: must be a preset of a task, with a {TASK_NAME}. Received: a {loaded.kind} without one. "
                f"Run `bert-tf finetune TASK --preset {preset}` first. If another program fine-tuned the model, "
                "run `bert-tf convert` with `--task TASK`."
            )
        try:
            self.task, self.max_sequence_length = task_of(with_default_task(loaded.task, loaded.config))
        except ValueError as error:
            raise ValueError(
                f"{preset}: {TASK_NAME}: {error}. If another program fine-tuned the model, run "
                "`bert-tf convert` with `--task TASK`."
            ) from error
        self._config = loaded.config
        self._tokenizer = BertTokenizer(loaded.vocabulary, loaded.lowercase)
        backend = current_backend()
        self.model, self._most_widths = backend.compile_predict(loaded.model), backend.most_widths

    def with_model(self, model: Model) -> Self:
        """Returns a copy of this task predictor that calls another model, for example an exported one."""
        other = copy.copy(self)
        other.model = model
        return other

    def answers(self, examples: Sequence[Any]) -> list[Any]:
        """Returns the predictions for `examples`, in their order."""
        rows = self.task.encode(examples, self._tokenizer, self.max_sequence_length, labelled=False)
        rows = replace(rows, most_widths=self._most_widths)
        return self.task.answers(examples, rows, outputs_of(self.model, rows, self._config, self.task.by_token))

    def answer_file(self, path: str | Path, output: str | Path, input_errors: InputErrors) -> int:
        """Predicts for a file in the task's format, part by part. Labels are not required.

        Args:
            path: the input file.
            output: the file of predictions, in the task's format, written atomically.
            input_errors: collects faulty entries.

        Returns:
            The number of examples.
        """
        path, output = local_path(path), local_path(output)
        progress = Progress("examples")
        count = 0

        def parts() -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
            nonlocal count
            examples = self.task.read(path, input_errors, labelled=False)
            while part := list(itertools.islice(examples, _PART)):
                yield part, self.answers(part)
                count += len(part)
                progress.add(len(part))

        self.task.write(output, parts())
        return count


class Ensemble(TaskPredictor):
    """Averages the predictions of several presets of one task (arXiv 1810.04805, table 2).

    Each preset keeps its vocabulary, length and thresholds. Raises ValueError for different tasks.
    """

    def __init__(self, presets: Sequence[str | Path]) -> None:
        super().__init__(presets[0])
        self._others = [TaskPredictor(preset) for preset in presets[1:]]
        for preset, other in zip(presets[1:], self._others, strict=True):
            if other.task.name != self.task.name:
                raise ValueError(
                    f"{preset}: an ensemble must be of one task, here `{self.task.name}`. Received: `{other.task.name}`"
                )

    def answers(self, examples: Sequence[Any]) -> list[Any]:
        """Returns the predictions for `examples`, averaged by the task over all models."""
        of_models = [super().answers(examples), *(other.answers(examples) for other in self._others)]
        return self.task.averaged([other.task for other in self._others], of_models)
