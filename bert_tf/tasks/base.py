"""Base class of tasks: a head with files and the official metrics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras

from bert_tf.config import BertConfig
from bert_tf.encoding.heads import Answer, Example, Head
from bert_tf.models import BertBackbone
from bert_tf.reports.tasks.answers import write_answers_page
from bert_tf.reports.tasks.scored import Scored
from bert_tf.tasks.example_scores import ExampleScores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.training.losses import Objective


def pairs_of(parts: Iterable[tuple[Sequence[Example], Sequence[Answer]]]) -> Iterator[tuple[Example, Answer]]:
    """Yields each example with its prediction; `parts` are consecutive parts of a file, as in `Task.write`."""
    for examples, answers in parts:
        yield from zip(examples, answers, strict=True)


class Task(Head[Example, Answer]):
    """Base class of all tasks.

    A task is a head with files and metrics. Each example records its place in its file. Predictions are in the order of
    the examples.
    """

    metric: ClassVar[str]
    """Name of the metric of `score` that selects the best epoch and run; larger is better."""

    predictions_name: ClassVar[str]
    """File name of predictions, with the suffix of the task's format."""

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

    def serving_inputs(self, example: Example) -> dict[str, Any]:
        """Returns the texts of an example by the names of the inputs of an exported model; {} if there are none."""
        return {}

    @abstractmethod
    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns the model: the encoder with a new head."""

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
