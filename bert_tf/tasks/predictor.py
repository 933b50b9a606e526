"""Predictions of fine-tuned presets, for texts and for files."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from bert_tf.config import ConfigError, local_path
from bert_tf.encoding.inference import answers_of
from bert_tf.encoding.rows import Model
from bert_tf.entry.progress import Progress
from bert_tf.models import load_preset
from bert_tf.models.preset_header import TASK_NAME
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.registry import task_of, with_default_task
from bert_tf.text.byte_pairs import tokenizer_of
from bert_tf.text.columns import is_single
from bert_tf.training.backends import current_backend

# Examples held in memory at once.
_PART = 2048


class TaskPredictor:
    """Predicts texts and files with a fine-tuned preset.

    Args:
        preset: preset of a task, run, `RUN@STEP`, or checkpoint of another program with a head for texts, tokens or
            choices; see `load_preset`. The task of such a head is `classify`, `regression`, `ner` or `swag`.
            `bert-tf finetune` and `save_to_preset` of a task model write presets of a task.

    Raises:
        ConfigError: if `load_preset` cannot load the preset.
        ValueError: for a preset without a task, or with a task that is not in `registry.TASKS`.

    Example:
        >>> predictor = bert_tf.TaskPredictor("runs/my_task")  # written by `bert-tf finetune classify`
        >>> prediction = predictor.predict("a good film")
        >>> prediction["label"] in ("negative", "positive"), list(prediction["probabilities"])
        (True, ['negative', 'positive'])
        >>> len(predictor.predict(["a good film", "a dull film"]))
        2
        >>> predictor.predict_file("my_task/dev.tsv", "predictions.jsonl")
        4
    """

    def __init__(self, preset: str | Path) -> None:
        loaded = load_preset(preset)
        if loaded.task is None:
            raise ValueError(
                f"{preset}: must be a preset of a task, with a {TASK_NAME}. Received: a {loaded.kind} without one. "
                f"{_next_step(loaded.kind, preset)}"
            )
        try:
            self.task, length = task_of(with_default_task(loaded.task, loaded.config))
        except ValueError as error:
            raise ValueError(
                f"{preset}: {TASK_NAME}: {error}. If another program fine-tuned the model, run "
                "`bert-tf convert` with `--task TASK`."
            ) from error
        self._config = loaded.config
        self.max_sequence_length = min(length, loaded.config.max_sequence_length)
        self._tokenizer = tokenizer_of(loaded.vocabulary, loaded.lowercase)
        self.model = current_backend().compile_predict(loaded.model)

    def with_model(self, model: Model) -> Self:
        """Returns a copy of this task predictor that calls another model, for example an exported one."""
        other = copy.copy(self)
        other.model = model
        return other

    def predict(self, x: Any, *, top_k: int | None = None, batch_size: int | None = None) -> Any:
        """Returns a prediction for each example, or one prediction for the texts of one example.

        | task | `x` | prediction |
        |---|---|---|
        | GLUE, `classify` | texts, or two columns of texts | `label`, `probabilities` by label |
        | `stsb`, `classify --regression` | the same | `number` |
        | `ner` | texts, or lists of words | `entities`, `words`, `tags` |
        | `squad1`, `squad2` | questions and contexts | `answer`, `start`, `end`, `probability` |
        | `swag` | texts and lists of choices | `choice`, `probabilities` |

        `bert_tf.encoding.predictions` describes all entries. The values are those of `predict_file`.

        Args:
            x: one column: a list, array, pandas column or other iterable. Several columns: a tuple or dictionary of
                columns, a data frame, a list of tuples or of dictionaries, or an array of shape (examples, columns).
                Dictionaries and data frames may have further columns if the task knows the names of its own. Strings
                in place of columns are one example.
            top_k: number of most probable labels; for questions, number of best answers in `n_best`, at most those of
                the task.
            batch_size: maximum number of rows in a batch; by default the free memory determines it.

        Returns:
            A list of dictionaries of JSON values, or one dictionary for one example.

        Raises:
            ConfigError: for inputs of another form, with the number of the row, and for values below 1.
            ValueError: if the task reads examples from files only.
        """
        for name, value in (("top_k", top_k), ("batch_size", batch_size)):
            if value is not None and value < 1:
                raise ConfigError(f"`{name}` must be at least 1. Received: {value}")
        examples = self.task.examples_of(x)
        predictions: list[Any] = []
        # The same parts as in `predict_file`.
        for begin in range(0, len(examples), _PART):
            part = examples[begin : begin + _PART]
            predictions += self.task.predictions(part, self.predict_examples(part, batch_size), top_k)
        return predictions[0] if is_single(x) else predictions

    __call__ = predict

    def predict_examples(self, examples: Sequence[Any], batch_size: int | None = None) -> list[Any]:
        """Returns the predictions for examples of the task, in their order, as the task's `answers`.

        Args:
            examples: examples from `task.read` or `task.examples_of`.
            batch_size: maximum number of rows in a batch; by default the free memory determines it.
        """
        rows = self.task.encode(examples, self._tokenizer, self.max_sequence_length, labelled=False)
        return answers_of(self.task, examples, rows, self.model, self._config, batch_size)

    def predict_file(self, path: str | Path, output: str | Path, input_errors: InputErrors | None = None) -> int:
        """Predicts a file in the task's format, part by part. Labels are not required.

        Args:
            path: the input file.
            output: the file of predictions, in the task's format, written atomically.
            input_errors: collects faulty entries; None raises them.

        Returns:
            The number of examples.

        Raises:
            ValueError: for a faulty entry, with file and line.
        """
        path, output = local_path(path), local_path(output)
        input_errors = InputErrors() if input_errors is None else input_errors
        progress = Progress("examples")
        count = 0

        def parts() -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
            nonlocal count
            examples = self.task.read(path, input_errors, labelled=False)
            while part := list(itertools.islice(examples, _PART)):
                yield part, self.predict_examples(part)
                count += len(part)
                progress.add(len(part))

        self.task.write(output, parts())
        return count


def _next_step(kind: str, preset: str | Path) -> str:
    """Returns the next step for a preset without a task."""
    if kind == "BertTokenClassifier":
        return (
            "The task `ner` needs labels O, B-TYPE and I-TYPE. For other labels, use `predict_labels` of "
            f"`bert_tf.BertTokenClassifier.from_preset({str(preset)!r})`."
        )
    return (
        f"Run `bert-tf finetune TASK --preset {preset}` first. If another program fine-tuned the model, run "
        "`bert-tf convert` again with `--task TASK`."
    )


class Ensemble(TaskPredictor):
    """Averages the predictions of several presets of one task (arXiv 1810.04805, table 2).

    | task | averaged over the presets |
    |---|---|
    | GLUE, `classify` | probability of each label |
    | `stsb`, `classify --regression` | number |
    | `ner` | probability of each tag of a word |
    | `squad1`, `squad2` | probability of each of the n best answers, 0 if not among them; null odds and thresholds |
    | `swag` | probability of each choice |

    Texts, words and answers are compared, not tokens, so the presets may have different sizes, vocabularies, casings
    and lengths. They must have the same labels, in any order.

    Args:
        presets: one or more presets; see `TaskPredictor`.

    Raises:
        ConfigError: if `load_preset` cannot load a preset, and without presets.
        ValueError: for presets without a task, different tasks, and tasks with other labels or inputs, with the name of
            the preset.

    Example:
        >>> ensemble = bert_tf.Ensemble(["runs/my_task", "runs/my_task"])
        >>> sorted(ensemble.predict("a good film"))
        ['label', 'probabilities']
    """

    def __init__(self, presets: Sequence[str | Path]) -> None:
        if isinstance(presets, str | Path) or not presets:
            raise ConfigError(f"`presets` must be a list of one or more presets. Received: {presets!r}")
        super().__init__(presets[0])
        self._others = [TaskPredictor(preset) for preset in presets[1:]]
        for preset, other in zip(presets[1:], self._others, strict=True):
            if other.task.name != self.task.name:
                raise ValueError(
                    f"{preset}: an ensemble must be of one task, here `{self.task.name}`. Received: `{other.task.name}`"
                )
            try:
                self.task.check_member(other.task)
            except ValueError as error:
                raise ValueError(f"{preset}: {error}") from error

    def predict_examples(self, examples: Sequence[Any], batch_size: int | None = None) -> list[Any]:
        """Returns the predictions for `examples`, averaged by the task over all models."""
        others = (other.predict_examples(examples, batch_size) for other in self._others)
        of_models = [super().predict_examples(examples, batch_size), *others]
        return self.task.averaged([other.task for other in self._others], of_models)
