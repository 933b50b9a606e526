"""Base class of heads: from texts to rows of tokens, and from the outputs of a model to predictions."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.text.tokenizer import TextTokenizer

Example = TypeVar("Example")
Answer = TypeVar("Answer")


class Head(ABC, Generic[Example, Answer]):
    """Base class of heads.

    A head is a frozen dataclass. Its fields are JSON-serializable and are stored in the preset's task.json, together
    with those of its task. Commands, Keras models and exports of a preset read the same fields.
    """

    name: ClassVar[str]
    """Name on the command line and in task.json."""

    by_token: ClassVar[bool] = False
    """True if the model has one output for each token."""

    max_sequence_length: ClassVar[int] = 128
    """Default for the maximum tokens of a row, limited by the model's positions."""

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes examples as rows.

        Args:
            examples: the examples.
            tokenizer: the preset's tokenizer.
            length: maximum tokens of a row.
            labelled: whether to include targets.

        Returns:
            The encoded rows.
        """

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
        """Returns the predictions of `answers` as dictionaries of JSON values; see `encoding.predictions`.

        Args:
            examples: the examples.
            answers: their predictions, from `answers`.
            top_k: number of most probable labels or answers to return; None for the task's default.

        Raises:
            ValueError: if the task reads examples from files only, or has no ranked predictions for `top_k`.
        """
        raise ValueError(f"the task `{self.name}` reads files only. Use `predict_file`.")

    def description(self) -> dict[str, Any]:
        """Returns the fields, for task.json."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from its `description`, after a JSON round trip."""
        return cls(**{name: _value(value) for name, value in description.items()})

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Self:
        """Builds the head from a task.json, which may have fields of a task."""
        names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: _value(value) for name, value in description.items() if name in names})


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
