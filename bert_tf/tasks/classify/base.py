"""Base classes of text classification and regression, on single texts or pairs.

Shape legend: E examples, N rows, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import keras
import numpy as np

from bert_tf.config import BertConfig
from bert_tf.encoding.texts import (
    LabelAnswer,
    LabelHead,
    NumberAnswer,
    NumberHead,
    TextAnswer,
    TextExample,
    TextsHead,
)
from bert_tf.models import BertBackbone, BertTextClassifier
from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels, ScoredNumber, ScoredNumbers
from bert_tf.tasks.averaging import label_order, mean_probabilities
from bert_tf.tasks.base import Task
from bert_tf.tasks.example_scores import ExampleScores, correlation_scores, mean_scores, rank_correlation_scores
from bert_tf.training.losses import CLASSIFICATION, REGRESSION, Objective

# Prefix of the default class names in transformers.
_UNNAMED = "LABEL_"


@dataclass(frozen=True)
class TextsTask(TextsHead[TextAnswer], Task[TextExample, TextAnswer]):
    """Base class of tasks with one prediction for a text or a pair of texts."""

    head: ClassVar[str] = "sequence_classification"

    @property
    def needs_pooler(self) -> bool:
        """True if the model reads only [CLS]."""
        return self.pooling == "first"

    def adapt_to_encoder(self, config: BertConfig) -> Self:
        """Returns the task with last-token pooling for left-to-right encoders, whose first token sees no other."""
        reads_on = config.attention == "left_to_right" and self.pooling == "first"
        return replace(self, pooling="last") if reads_on else self

    def serving_inputs(self, example: TextExample) -> dict[str, Any]:
        """Returns `text`, and `text_pair` for pairs."""
        return dict(zip(("text", "text_pair"), example.texts, strict=False))

    def check_member(self, other: Self) -> None:
        """Raises ValueError for another number of texts."""
        if len(other.text_names) != len(self.text_names):
            raise ValueError(
                f"an ensemble must read the same number of texts, {len(self.text_names)}. "
                f"Received: {len(other.text_names)} ({', '.join(other.text_names)})"
            )

    def named_texts(self, example: TextExample) -> tuple[tuple[str, str], ...]:
        """Returns the texts of an example as pairs of name and text."""
        return tuple(zip(self.text_names, example.texts, strict=True))


@dataclass(frozen=True)
class TextTask(LabelHead, TextsTask[LabelAnswer]):
    """Classification of texts; `labels` are () before `fit_labels`."""

    objective: ClassVar[Objective] = CLASSIFICATION

    def fit_labels(self, examples: Sequence[TextExample]) -> Self:
        """Returns the task with the sorted labels of the examples, unless its labels are set."""
        if self.labels:
            return self
        return replace(self, labels=tuple(sorted({str(example.label) for example in examples})))

    def import_labels(self, names: tuple[str, ...]) -> Self:
        """Returns the task with its labels in the order of the model's outputs (`class_names`)."""
        return replace(self, labels=class_names(self.labels, names))

    def validate_examples(self, examples: Sequence[TextExample], path: Any) -> None:
        """Raises ValueError if the training examples have fewer than two labels."""
        super().validate_examples(examples, path)
        labels = sorted({str(example.label) for example in examples})
        if len(labels) < 2:
            raise ValueError(f"{path}: at least two labels are needed. Received: {', '.join(labels)}")

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the label indices, int32 (E,)."""
        index = {label: number for number, label in enumerate(self.labels)}
        return np.array([index[str(example.label)] for example in examples], np.int32), None

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a text classifier."""
        return BertTextClassifier(backbone, len(self.labels), pooling=self.pooling)

    def check_member(self, other: Self) -> None:
        """Raises ValueError for another number of texts, or other labels."""
        super().check_member(other)
        label_order(self.labels, other.labels)

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[LabelAnswer]]) -> list[LabelAnswer]:
        """Returns the labels of the largest mean probability over all models, which may order them differently."""
        probabilities = [
            np.array([answer.probabilities for answer in of_model]).reshape(-1, len(self.labels))
            for of_model in answers
        ]
        means = mean_probabilities(probabilities, [task.labels for task in (self, *tasks)])
        return self.labelled(means)

    def score_details(self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]) -> ScoredLabels:
        """Returns the probabilities with the gold labels."""
        rows = [
            ScoredLabel(example.place, self.named_texts(example), str(example.label), answer.probabilities)
            for example, answer in zip(examples, answers, strict=True)
        ]
        return ScoredLabels(self.labels, rows)

    def example_scores(
        self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]
    ) -> dict[str, ExampleScores]:
        """Returns the statistics of `label_scores`."""
        return self.label_scores([str(example.label) for example in examples], [answer.label for answer in answers])

    def label_scores(self, gold: list[str], predicted: list[str]) -> dict[str, ExampleScores]:
        """Returns the statistics of predicted labels, other than those of means of two metrics."""
        return {"accuracy": mean_scores([float(one == other) for one, other in zip(gold, predicted, strict=True)])}


@dataclass(frozen=True)
class NumberTask(NumberHead, TextsTask[NumberAnswer]):
    """Regression on texts; targets are standardized by `mean` and `deviation` in training."""

    objective: ClassVar[Objective] = REGRESSION

    def import_labels(self, names: tuple[str, ...]) -> Self:
        """Raises ValueError unless the model has one output."""
        if len(names) != 1:
            raise ValueError(f"the task `{self.name}` needs a head of one output. Received: {len(names)}")
        return self

    def validate_examples(self, examples: Sequence[TextExample], path: Any) -> None:
        """Raises ValueError if all training examples have the same number."""
        super().validate_examples(examples, path)
        numbers = set(right_numbers(examples))
        if len(numbers) < 2:
            raise ValueError(f"{path}: at least two different numbers are needed. Received: {numbers.pop()}")

    def fit_labels(self, examples: Sequence[TextExample]) -> Self:
        """Returns the task with mean and standard deviation of the examples."""
        numbers = right_numbers(examples)
        return replace(self, mean=float(np.mean(numbers)), deviation=float(np.std(numbers)))

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the standardized numbers, float32 (E,)."""
        numbers = np.array(right_numbers(examples))
        return ((numbers - self.mean) / self.deviation).astype(np.float32), None

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model with one output."""
        return BertTextClassifier(backbone, 1, pooling=self.pooling)

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[NumberAnswer]]) -> list[NumberAnswer]:
        """Returns the mean number over all models."""
        return [
            NumberAnswer(sum(a.number for a in of_models) / len(of_models)) for of_models in zip(*answers, strict=True)
        ]

    def example_scores(
        self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]
    ) -> dict[str, ExampleScores]:
        """Returns the statistics of both correlations."""
        numbers = right_numbers(examples), [answer.number for answer in answers]
        return {"pearson": correlation_scores(*numbers), "spearman": rank_correlation_scores(*numbers)}

    def score_details(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> ScoredNumbers:
        """Returns the predicted numbers with the gold ones."""
        gold = right_numbers(examples)
        return ScoredNumbers(
            [
                ScoredNumber(example.place, self.named_texts(example), right, answer.number)
                for example, right, answer in zip(examples, gold, answers, strict=True)
            ]
        )


def right_numbers(examples: Sequence[TextExample]) -> list[float]:
    """Returns the gold numbers of examples; the reader has validated them."""
    return [float(str(example.label)) for example in examples]


def class_names(labels: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Returns the task's `labels` in the order of an imported model's class names; () returns `names`.

    Names are compared without case, and `-` equals `_`. Default names (`LABEL_0`, `LABEL_1`, ...) match the labels 0,
    1, ... if the task has these. Raises ValueError if the names do not match the labels.
    """
    if not labels:
        return tuple(names)
    known = {_folded(label): label for label in labels}
    ordered = tuple(known.get(_folded(name.removeprefix(_UNNAMED)), "") for name in names)
    if sorted(ordered) != sorted(labels):
        raise ValueError(
            f"`labels` must name the classes, {', '.join(labels)}, in the order of the model's outputs. "
            f"Received: {', '.join(names)}"
        )
    return ordered


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")
