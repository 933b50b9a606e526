"""Base classes of text classification and regression, on single texts or pairs.

Shape legend: E examples, N rows, C classes.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import keras
import numpy as np
from scipy.special import softmax

from bert_tf.config import BertConfig
from bert_tf.models import BertBackbone, BertTextClassifier
from bert_tf.reports.tasks.scored import ScoredLabel, ScoredLabels, ScoredNumber, ScoredNumbers
from bert_tf.tasks.averaging import label_order, mean_probabilities
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.rows import TextExample, mean_of_windows, text_rows
from bert_tf.tasks.example_scores import ExampleScores, correlation_scores, mean_scores, rank_correlation_scores
from bert_tf.tasks.predictions import LabelPrediction, NumberPrediction, check_unranked
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.text import columns
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.training.losses import CLASSIFICATION, REGRESSION, SINGLE_OUTPUT, Objective

TextAnswer = TypeVar("TextAnswer")
# Prefix of the default class names in transformers.
_UNNAMED = "LABEL_"


@dataclass(frozen=True)
class LabelAnswer:
    """The predicted label, and the probability of each label in the order of the task's labels."""

    label: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class NumberAnswer:
    """The predicted number."""

    number: float


@dataclass(frozen=True)
class TextsTask(Task[TextExample, TextAnswer]):
    """Base class of tasks with one prediction for a text or a pair of texts, of the names `text_names`.

    `pooling` is that of `BertTextClassifier`. `windows` splits texts longer than a row (`text_rows`): each window is a
    training row, and the prediction is the mean over the example's windows.
    """

    head: ClassVar[str] = "sequence_classification"

    text_names: tuple[str, ...] = ("text",)
    pooling: str = "first"
    windows: bool = False

    @property
    def needs_pooler(self) -> bool:
        """True if the model reads only [CLS]."""
        return self.pooling == "first"

    def adapt_to_encoder(self, config: BertConfig) -> Self:
        """Returns the task with last-token pooling for left-to-right encoders, whose first token sees no other."""
        reads_on = config.attention == "left_to_right" and self.pooling == "first"
        return replace(self, pooling="last") if reads_on else self

    @abstractmethod
    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the targets, (E,), and float32 weights of the same shape; None weighs all 1."""

    def encode(
        self, examples: Sequence[TextExample], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes each example, or each of its windows, as `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`."""
        rows = text_rows(examples, tokenizer, length, self.windows)
        if not labelled:
            return rows
        targets, weights = self.targets(examples)
        row_weights = {} if weights is None else {SINGLE_OUTPUT: weights[rows.examples]}
        return replace(rows, targets={SINGLE_OUTPUT: targets[rows.examples]}, weights=row_weights)

    def serving_inputs(self, example: TextExample) -> dict[str, Any]:
        """Returns `text`, and `text_pair` for pairs."""
        return dict(zip(("text", "text_pair"), example.texts, strict=False))

    def examples_of(self, x: Any) -> list[TextExample]:
        """Returns texts, or pairs of texts, as examples; columns are selected by `text_names` if they have names."""
        rows = columns.rows_of(x, self.text_names)
        return [TextExample(f"row {number}", texts) for number, texts in enumerate(rows)]

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

    def description(self) -> dict[str, Any]:
        """Returns the fields, and the number of texts for the export."""
        return {**dataclasses.asdict(self), "text_columns": len(self.text_names)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Builds the task from its `description`, after a JSON round trip."""
        return super().from_description({name: value for name, value in description.items() if name != "text_columns"})


@dataclass(frozen=True)
class TextTask(TextsTask[LabelAnswer]):
    """Classification of texts; `labels` are in the order of the model's outputs, and () before `fit_labels`."""

    objective: ClassVar[Objective] = CLASSIFICATION

    labels: tuple[str, ...] = ()

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

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[LabelAnswer]:
        """Returns labels and probabilities, averaged over the windows of each example."""
        means = mean_of_windows(softmax(outputs[SINGLE_OUTPUT], axis=1), rows, len(examples))
        return self._labelled(means)

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
        return self._labelled(means)

    def predictions(
        self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer], top_k: int | None = None
    ) -> list[LabelPrediction]:
        """Returns labels and probabilities by label; with `top_k`, the most probable ones in descending order."""
        predictions: list[LabelPrediction] = []
        for answer in answers:
            named = dict(zip(self.labels, answer.probabilities, strict=True))
            if top_k is not None:
                named = dict(sorted(named.items(), key=lambda pair: -pair[1])[:top_k])
            predictions.append({"label": answer.label, "probabilities": named})
        return predictions

    def _labelled(self, probabilities: np.ndarray) -> list[LabelAnswer]:
        return [LabelAnswer(self.labels[int(row.argmax())], tuple(row.tolist())) for row in probabilities]

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
class NumberTask(TextsTask[NumberAnswer]):
    """Regression on texts; targets are standardized by `mean` and `deviation` in training."""

    objective: ClassVar[Objective] = REGRESSION

    mean: float = 0.0
    deviation: float = 1.0

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

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[NumberAnswer]:
        """Returns the predicted numbers on the scale of the files, averaged over the windows of each example."""
        means = mean_of_windows(outputs[SINGLE_OUTPUT][:, 0], rows, len(examples))
        return [NumberAnswer(self.mean + self.deviation * number) for number in means.tolist()]

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

    def predictions(
        self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer], top_k: int | None = None
    ) -> list[NumberPrediction]:
        """Returns the numbers. Raises ConfigError for `top_k`."""
        check_unranked(self.name, top_k)
        return [{"number": answer.number} for answer in answers]

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
