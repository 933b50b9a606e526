"""What a task is: examples in files, rows for a model, answers, the official metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import keras

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.tasks.scored import Scored
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.losses import Objective

Example = TypeVar("Example")
Answer = TypeVar("Answer")


class Task(ABC, Generic[Example, Answer]):
    """A task, as one frozen dataclass whose fields JSON can hold: they are the preset's task.json.

    Examples know where they stand in their file; answers are in the order of the examples.
    """

    name: ClassVar[str]
    """As the command line and task.json have it."""

    metric: ClassVar[str]
    """The figure of `score` that chooses between epochs and runs; the larger the better."""

    predictions_name: ClassVar[str]
    """File name of predictions, its suffix that of the task's own format."""

    by_token: ClassVar[bool] = False
    """Whether the model's outputs are one a token."""

    default_length: ClassVar[int] = 128
    """Tokens of a row, where the user does not say and the model has as many positions."""

    @property
    def needs_pooler(self) -> bool:
        """Whether the model reads the encoder's pooled output; without, the encoder is built without a pooler."""
        return True

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """What is minimized."""

    @abstractmethod
    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[Example]:
        """Reads examples, one by one.

        Args:
            path: a file of the task's own format.
            problems: takes what is faulty, by file and line.
            labelled: whether the right answers are to be read, and must be there.

        Raises:
            ValueError: naming file and line, where `problems` does not skip it, or the whole file cannot be read.
        """

    def adapt_to_encoder(self, config: BertConfig) -> Self:
        """Returns the task as it is to be learnt on an encoder of this architecture."""
        return self

    def fit_labels(self, examples: Sequence[Example]) -> Self:
        """Returns the task with what it learns of the training examples by counting, such as label names."""
        return self

    def calibrate(self, examples: Sequence[Example], answers: Sequence[Answer]) -> Self:
        """Returns the task with what it learns of the development examples, such as a threshold."""
        return self

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], tokenizer: BertTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Returns the rows of examples.

        Args:
            examples: as `read` gives them.
            tokenizer: the preset's.
            length: tokens of a row at most.
            labelled: whether to give targets.
        """

    @abstractmethod
    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns the model, its head new."""

    @abstractmethod
    def answers(self, examples: Sequence[Example], rows: EncodedRows, outputs: Arrays) -> list[Answer]:
        """Returns the answer to each example.

        Args:
            examples: the examples.
            rows: `encode` of them.
            outputs: what the model gives for these rows (see `outputs.outputs_of`).
        """

    @abstractmethod
    def score(self, examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, float]:
        """Returns the official figures by name, shares in [0, 1] unless the official script has percent."""

    @abstractmethod
    def score_details(self, examples: Sequence[Example], answers: Sequence[Answer]) -> Scored:
        """Returns the answers beside what is right, for a page."""

    @abstractmethod
    def write(self, path: Path, answers: Iterator[tuple[Sequence[Example], Sequence[Answer]]]) -> None:
        """Writes predictions in the task's own format, whole or not at all.

        Args:
            path: the file to write; what comes beside it has names made of this one.
            answers: parts of a file, one after the other, so that no file needs to fit into memory where its format
                allows that.
        """

    @abstractmethod
    def read_answers(self, path: Path, examples: Sequence[Example]) -> list[Answer]:
        """Reads predictions of any program in the task's own format, for `score`.

        Raises:
            ValueError: naming file and line or id, for a prediction that is missing, double or of no example.
        """

    def averaged(self, others: Sequence[Self], answers: Sequence[Sequence[Answer]]) -> list[Answer]:
        """Returns one answer of several models to each example.

        Args:
            others: the tasks of the other models' presets, of the same name.
            answers: those of every model, this task's first.

        Raises:
            ValueError: for a task whose answers cannot be averaged.
        """
        raise ValueError(f"`--ensemble` is not for the task `{self.name}`.")

    def validate_examples(self, examples: Sequence[Example], path: Path) -> None:
        """Raises ValueError where training examples as a whole are of no use, as those of one class."""
        if not examples:
            raise ValueError(f"{path}: no examples.")

    def description(self) -> dict[str, Any]:
        """Returns the fields, for task.json."""
        import dataclasses

        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from what `description` gave, after JSON."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in description.items()}
        return cls(**values)
