"""Base class of tasks: reading examples, encoding rows, predictions and the official metrics."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone
from bert_tf.reports.tasks.answers import write_answers_page
from bert_tf.reports.tasks.scored import Scored
from bert_tf.tasks.example_scores import ExampleScores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.training.losses import Objective

Example = TypeVar("Example")
Answer = TypeVar("Answer")


def pairs_of(parts: Iterable[tuple[Sequence[Example], Sequence[Answer]]]) -> Iterator[tuple[Example, Answer]]:
    """Yields each example with its prediction; `parts` are consecutive parts of a file, as in `Task.write`."""
    for examples, answers in parts:
        yield from zip(examples, answers, strict=True)


class Task(ABC, Generic[Example, Answer]):
    """Base class of all tasks.

    A task is a frozen dataclass. Its fields are JSON-serializable and are stored in the preset's task.json. Each
    example records its place in its file. Predictions are in the order of the examples.
    """

    name: ClassVar[str]
    """Name on the command line and in task.json."""

    metric: ClassVar[str]
    """Name of the metric of `score` that selects the best epoch and run; larger is better."""

    predictions_name: ClassVar[str]
    """File name of predictions, with the suffix of the task's format."""

    by_token: ClassVar[bool] = False
    """True if the model has one output for each token."""

    max_sequence_length: ClassVar[int] = 128
    """Default for the maximum tokens of a row, limited by the model's positions."""

    head: ClassVar[str] = ""
    """Kind of the head of converted models that the task accepts, as in `conversion`; "" accepts none."""

    @property
    def needs_pooler(self) -> bool:
        """True if the model reads the encoder's pooled output; otherwise the encoder is built without a pooler."""
        return True

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """Training objective."""

    @abstractmethod
    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[Example]:
        """Reads examples one by one.

        Args:
            path: a file in the task's format.
            input_errors: collects faulty entries by file and line.
            labelled: whether labels are required and read.

        Yields:
            The examples.

        Raises:
            ValueError: for a faulty entry, with file and line, unless `input_errors` skips it, and for a file that
                cannot be read.
        """

    def adapt_to_encoder(self, config: BertConfig) -> Self:
        """Returns the task adapted to the encoder's architecture."""
        return self

    def fit_labels(self, examples: Sequence[Example]) -> Self:
        """Returns the task with statistics of the training examples, such as label names."""
        return self

    def calibrate(self, examples: Sequence[Example], answers: Sequence[Answer]) -> Self:
        """Returns the task with values tuned on the development examples, such as a threshold."""
        return self

    def import_labels(self, names: tuple[str, ...]) -> Self:
        """Returns the task of a converted model, whose labels are not fitted.

        Args:
            names: class names in the order of the model's outputs; () if the head has no classes.

        Raises:
            ValueError: if the names do not match the task.
        """
        return self

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes examples as rows.

        Args:
            examples: examples from `read`.
            tokenizer: the preset's tokenizer.
            length: maximum tokens of a row.
            labelled: whether to include targets.

        Returns:
            The encoded rows.
        """

    def serving_inputs(self, example: Example) -> dict[str, Any]:
        """Returns the texts of an example by the names of the inputs of an exported model; {} if there are none."""
        return {}

    @abstractmethod
    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns the model: the encoder with a new head."""

    @abstractmethod
    def answers(self, examples: Sequence[Example], rows: EncodedRows, outputs: Arrays) -> list[Answer]:
        """Returns the prediction for each example.

        Args:
            examples: the examples.
            rows: their rows from `encode`.
            outputs: the model's outputs for these rows (see `inference.outputs_of`).
        """

    def examples_of(self, x: Any) -> list[Example]:
        """Returns texts as examples without labels.

        Args:
            x: columns of texts, or the texts of one example; see `TaskPredictor.predict`.

        Returns:
            The examples.

        Raises:
            ConfigError: for inputs of another form, with the number of the row.
            ValueError: if the task reads examples from files only.
        """
        raise ValueError(f"the task `{self.name}` reads files only. Use `predict_file`.")

    def predictions(
        self, examples: Sequence[Example], answers: Sequence[Answer], top_k: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Returns the predictions of `answers` as dictionaries of JSON values; see `tasks.predictions`.

        Args:
            examples: the examples.
            answers: their predictions, from `answers`.
            top_k: number of most probable labels or answers to return; None for the task's default.

        Raises:
            ValueError: if the task reads examples from files only, or has no ranked predictions for `top_k`.
        """
        raise ValueError(f"the task `{self.name}` reads files only. Use `predict_file`.")

    @abstractmethod
    def score(self, examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, float]:
        """Returns the official metrics by name, in [0, 1] unless the official script uses percent."""

    def example_scores(self, examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, ExampleScores]:
        """Returns statistics of the examples for metrics of `score` by name, for tests of significance.

        Args:
            examples: the examples.
            answers: their predictions.
        """
        return {}

    @abstractmethod
    def score_details(self, examples: Sequence[Example], answers: Sequence[Answer]) -> Scored:
        """Returns the predictions with the gold labels, for the HTML page."""

    def write_page(self, path: Path, title: str, scored: Scored, metrics: Mapping[str, float], remark: str) -> None:
        """Writes the HTML page of predictions, atomically.

        Args:
            path: the page.
            title: name of the evaluated data.
            scored: the predictions, from `score_details`.
            metrics: official metrics by name.
            remark: warning about the predictions as a whole, or "".
        """
        write_answers_page(path, title, scored, metrics, remark)

    @abstractmethod
    def write(self, path: Path, answers: Iterator[tuple[Sequence[Example], Sequence[Answer]]]) -> None:
        """Writes predictions in the task's format, atomically.

        Args:
            path: the output file; names of additional files are derived from it.
            answers: consecutive parts of the file, examples with predictions. The file need not fit into memory if its
                format allows that.
        """

    @abstractmethod
    def read_answers(self, path: Path, examples: Sequence[Example]) -> list[Answer]:
        """Reads predictions of any program in the task's format, for `score`.

        Args:
            path: the file of predictions.
            examples: the examples.

        Returns:
            The predictions, in the order of the examples.

        Raises:
            ValueError: for a prediction that is missing, duplicate or of an unknown example, with file and line or id.
        """

    def check_member(self, other: Self) -> None:
        """Raises ValueError if the predictions of another preset's task cannot be averaged with those of this one."""

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[Answer]]) -> list[Answer]:
        """Returns the ensemble's prediction for each example.

        Args:
            tasks: the tasks of the further models' presets, of the same name, checked by `check_member`.
            answers: the predictions of each model, this task's first.

        Returns:
            The averaged predictions, in the order of the examples.

        Raises:
            ValueError: if the task does not support averaging.
        """
        raise ValueError(f"`--ensemble` does not support the task `{self.name}`.")

    def validate_examples(self, examples: Sequence[Example], path: Path) -> None:
        """Raises ValueError if the training examples as a whole are unusable, for example all of one class."""
        if not examples:
            raise ValueError(f"{path}: no examples.")

    def description(self) -> dict[str, Any]:
        """Returns the fields, for task.json."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from its `description`, after a JSON round trip."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in description.items()}
        return cls(**values)
