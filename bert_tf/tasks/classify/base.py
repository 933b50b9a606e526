"""What tasks of one label, or one number, for a text or a pair of texts share.

Shape legend: E examples, N rows, C classes.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import keras
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertTextClassifier
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.rows import TextExample, mean_of_windows, text_rows
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.tasks.scored import ScoredLabel, ScoredLabels, ScoredNumber, ScoredNumbers
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.losses import CLASSIFICATION, REGRESSION, SINGLE_OUTPUT, Objective

TextAnswer = TypeVar("TextAnswer")


@dataclass(frozen=True)
class LabelAnswer:
    """The label that was chosen, and the probability of each, in the order of the task's labels."""

    label: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class NumberAnswer:
    """The number that was found."""

    number: float


@dataclass(frozen=True)
class TextsTask(Task[TextExample, TextAnswer]):
    """One answer to one or two texts.

    Args:
        text_names: what the texts are called, one or two names.
        pooling: of `BertTextClassifier`.
        windows: whether texts longer than a row are read in windows (`text_rows`), each of them trained on; the answer
            is then made of the mean over an example's windows.
    """

    text_names: tuple[str, ...] = ("text",)
    pooling: str = "first"
    windows: bool = False

    @property
    def needs_pooler(self) -> bool:
        """Whether the model reads [CLS] alone."""
        return self.pooling == "first"

    def adapt_to_encoder(self, config: BertConfig) -> Self:
        """Returns the task with the last token for the first, which knows nothing of a text read from left to right."""
        reads_on = config.attention == "left_to_right" and self.pooling == "first"
        return replace(self, pooling="last") if reads_on else self

    @abstractmethod
    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the targets of examples, (E,), and float32 weights of the same shape; None weighs all 1."""

    def encode(
        self, examples: Sequence[TextExample], tokenizer: BertTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Returns `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` of every example, or of its windows."""
        rows = text_rows(examples, tokenizer, length, self.windows)
        if not labelled:
            return rows
        targets, weights = self.targets(examples)
        given = {} if weights is None else {SINGLE_OUTPUT: weights[rows.examples]}
        return replace(rows, targets={SINGLE_OUTPUT: targets[rows.examples]}, weights=given)

    def named_texts(self, example: TextExample) -> tuple[tuple[str, str], ...]:
        """Returns the texts of an example, each after its name."""
        return tuple(zip(self.text_names, example.texts, strict=True))

    def description(self) -> dict[str, Any]:
        """Returns the fields, and the number of texts, which export reads."""
        return {**dataclasses.asdict(self), "text_columns": len(self.text_names)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from what `description` gave, after JSON."""
        return super().from_description({name: value for name, value in description.items() if name != "text_columns"})


@dataclass(frozen=True)
class TextTask(TextsTask[LabelAnswer]):
    """Classification of texts.

    Args:
        labels: names of the classes, in the order of the model's outputs; () before `fitted`.
    """

    labels: tuple[str, ...] = ()

    @property
    def objective(self) -> Objective:
        """Softmax cross-entropy."""
        return CLASSIFICATION

    def fit_labels(self, examples: Sequence[TextExample]) -> Self:
        """Returns the task with the labels that occur, sorted, where it does not know them."""
        if self.labels:
            return self
        return replace(self, labels=tuple(sorted({str(example.label) for example in examples})))

    def validate_examples(self, examples: Sequence[TextExample], path: Any) -> None:
        """Raises ValueError for training examples of fewer than two labels."""
        super().validate_examples(examples, path)
        labels = sorted({str(example.label) for example in examples})
        if len(labels) < 2:
            raise ValueError(f"{path}: at least two labels are needed. Received: {', '.join(labels)}")

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the numbers of the labels, int32 (E,)."""
        index = {label: number for number, label in enumerate(self.labels)}
        return np.array([index[str(example.label)] for example in examples], np.int32), None

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a classifier of the labels."""
        return BertTextClassifier(backbone, len(self.labels), pooling=self.pooling)

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[LabelAnswer]:
        """Returns label and probabilities, the mean of those of the windows."""
        logits = outputs[SINGLE_OUTPUT]
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        means = mean_of_windows(probabilities, rows, len(examples))
        return [LabelAnswer(self.labels[int(row.argmax())], tuple(row.tolist())) for row in means]

    def score_details(self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]) -> ScoredLabels:
        """Returns the probabilities beside the right labels."""
        rows = [
            ScoredLabel(example.place, self.named_texts(example), str(example.label), answer.probabilities)
            for example, answer in zip(examples, answers, strict=True)
        ]
        return ScoredLabels(self.labels, rows)


@dataclass(frozen=True)
class NumberTask(TextsTask[NumberAnswer]):
    """Regression on texts."""

    @property
    def objective(self) -> Objective:
        """Squared error."""
        return REGRESSION

    def validate_examples(self, examples: Sequence[TextExample], path: Any) -> None:
        """Raises ValueError for training examples that all have the same number."""
        super().validate_examples(examples, path)
        numbers = set(right_numbers(examples))
        if len(numbers) < 2:
            raise ValueError(f"{path}: at least two different numbers are needed. Received: {numbers.pop()}")

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the numbers, float32 (E,)."""
        return np.array(right_numbers(examples), np.float32), None

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model of one output."""
        return BertTextClassifier(backbone, 1, pooling=self.pooling)

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[NumberAnswer]:
        """Returns the mean over the windows."""
        means = mean_of_windows(outputs[SINGLE_OUTPUT][:, 0], rows, len(examples))
        return [NumberAnswer(number) for number in means.tolist()]

    def score_details(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> ScoredNumbers:
        """Returns the numbers beside the right ones."""
        gold = right_numbers(examples)
        return ScoredNumbers(
            [
                ScoredNumber(example.place, self.named_texts(example), right, answer.number)
                for example, right, answer in zip(examples, gold, answers, strict=True)
            ]
        )


def right_numbers(examples: Sequence[TextExample]) -> list[float]:
    """Returns the numbers of examples, which their reader has checked."""
    return [float(str(example.label)) for example in examples]
