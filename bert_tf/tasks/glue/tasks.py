"""The tasks of GLUE (arXiv 1804.07461): labels in the order of the original's processors, the leaderboard's figures.

Where the leaderboard averages two figures of a task, `average` is their mean, and chooses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from bert_tf.tasks import metrics as figures
from bert_tf.tasks.classify.base import LabelAnswer, NumberAnswer, NumberTask, TextTask, right_numbers
from bert_tf.tasks.classify.rows import TextExample
from bert_tf.tasks.glue.files import Layout, predictions_of, read_glue, write_predictions
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import Arrays, EncodedRows

_BINARY = ("0", "1")
# What the file of the diagnostic set with labels calls its columns.
_DIAGNOSTIC = {"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"}


@dataclass(frozen=True)
class GlueTask(TextTask):
    """One of GLUE's classifications."""

    predictions_name: ClassVar[str] = "predictions.tsv"
    metric: ClassVar[str] = "accuracy"
    layout: ClassVar[Layout] = Layout()

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads rows; a label that the task does not have is a fault."""
        for example in read_glue(path, self.layout, self.text_names, input_errors, labelled):
            if labelled and example.label not in self.labels:
                input_errors.add(example.place, _label_rule(self.labels, str(example.label)))
                continue
            yield example

    def score(self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]) -> dict[str, float]:
        """Returns the leaderboard's figures, in [0, 1] or [-1, 1]."""
        return self.figures([str(example.label) for example in examples], [answer.label for answer in answers])

    def figures(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the figures of predicted labels."""
        return {"accuracy": figures.accuracy(gold, predicted)}

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[LabelAnswer]]]) -> None:
        """Writes index and label, as the leaderboard takes them."""
        write_predictions(
            path, (((e.key, a.label) for e, a in zip(examples, part, strict=True)) for examples, part in answers)
        )

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[LabelAnswer]:
        """Reads such a file; probabilities are not known."""
        return predictions_of(path, examples, self.answer_of)

    def answer_of(self, prediction: str) -> LabelAnswer:
        """Returns the answer that a prediction file has. Raises ValueError for what is no label."""
        if prediction not in self.labels:
            raise ValueError(_label_rule(self.labels, prediction))
        return LabelAnswer(prediction, ())


@dataclass(frozen=True)
class ColaTask(GlueTask):
    """The Corpus of Linguistic Acceptability: whether a sentence is one."""

    name: ClassVar[str] = "cola"
    metric: ClassVar[str] = "matthews"
    layout: ClassVar[Layout] = Layout(headerless=("source", "label", "star", "sentence"))

    text_names: tuple[str, ...] = ("sentence",)
    labels: tuple[str, ...] = _BINARY

    def figures(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns Matthews' correlation, and the accuracy, which is not the leaderboard's."""
        return {"matthews": figures.matthews(gold, predicted)} | super().figures(gold, predicted)


@dataclass(frozen=True)
class Sst2Task(GlueTask):
    """The Stanford Sentiment Treebank: 1 for praise."""

    name: ClassVar[str] = "sst2"

    text_names: tuple[str, ...] = ("sentence",)
    labels: tuple[str, ...] = _BINARY


@dataclass(frozen=True)
class _SameTask(GlueTask):
    """Whether two texts say the same: 1 where they do."""

    metric: ClassVar[str] = "average"

    labels: tuple[str, ...] = _BINARY

    def figures(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the F1 of label 1, the accuracy, and their mean."""
        f1, accuracy = figures.f1(gold, predicted, "1"), figures.accuracy(gold, predicted)
        return {"f1": f1, "accuracy": accuracy, "average": (f1 + accuracy) / 2}


@dataclass(frozen=True)
class MrpcTask(_SameTask):
    """The Microsoft Research Paraphrase Corpus."""

    name: ClassVar[str] = "mrpc"
    layout: ClassVar[Layout] = Layout(label="Quality")

    text_names: tuple[str, ...] = ("#1 String", "#2 String")


@dataclass(frozen=True)
class QqpTask(_SameTask):
    """Quora Question Pairs."""

    name: ClassVar[str] = "qqp"
    layout: ClassVar[Layout] = Layout(label="is_duplicate", key="id")

    text_names: tuple[str, ...] = ("question1", "question2")


@dataclass(frozen=True)
class MnliTask(GlueTask):
    """Multi-Genre Natural Language Inference."""

    name: ClassVar[str] = "mnli"
    layout: ClassVar[Layout] = Layout(label="gold_label", aliases=_DIAGNOSTIC)

    text_names: tuple[str, ...] = ("sentence1", "sentence2")
    labels: tuple[str, ...] = ("contradiction", "entailment", "neutral")


@dataclass(frozen=True)
class DiagnosticTask(MnliTask):
    """GLUE's diagnostic set, for models of MNLI."""

    name: ClassVar[str] = "ax"
    metric: ClassVar[str] = "matthews"
    layout: ClassVar[Layout] = Layout(aliases=_DIAGNOSTIC)

    def figures(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns Matthews' correlation of three classes, and the accuracy, which is not the leaderboard's."""
        return {"matthews": figures.matthews(gold, predicted)} | super().figures(gold, predicted)


@dataclass(frozen=True)
class QnliTask(GlueTask):
    """Whether a sentence answers a question."""

    name: ClassVar[str] = "qnli"

    text_names: tuple[str, ...] = ("question", "sentence")
    labels: tuple[str, ...] = ("entailment", "not_entailment")


@dataclass(frozen=True)
class RteTask(GlueTask):
    """Recognizing Textual Entailment."""

    name: ClassVar[str] = "rte"

    text_names: tuple[str, ...] = ("sentence1", "sentence2")
    labels: tuple[str, ...] = ("entailment", "not_entailment")


@dataclass(frozen=True)
class WnliTask(GlueTask):
    """The Winograd schemas as inference: 1 where the second sentence follows."""

    name: ClassVar[str] = "wnli"

    text_names: tuple[str, ...] = ("sentence1", "sentence2")
    labels: tuple[str, ...] = _BINARY


@dataclass(frozen=True)
class StsbTask(NumberTask):
    """The Semantic Textual Similarity Benchmark: how alike two sentences are, from 0 to 5."""

    name: ClassVar[str] = "stsb"
    metric: ClassVar[str] = "average"
    predictions_name: ClassVar[str] = "predictions.tsv"
    layout: ClassVar[Layout] = Layout(label="score")
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = 5.0

    text_names: tuple[str, ...] = ("sentence1", "sentence2")

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads rows; what is no number from 0 to 5 is a fault."""
        for example in read_glue(path, self.layout, self.text_names, input_errors, labelled):
            try:
                if labelled:
                    self.answer_of(str(example.label))
            except ValueError as error:
                input_errors.add(example.place, str(error))
                continue
            yield example

    def answers(self, examples: Sequence[TextExample], rows: EncodedRows, outputs: Arrays) -> list[NumberAnswer]:
        """Returns numbers as the leaderboard gets them: from 0 to 5, with three decimals."""
        numbers = [answer.number for answer in super().answers(examples, rows, outputs)]
        return [NumberAnswer(number) for number in np.clip(numbers, self.least, self.most).round(3).tolist()]

    def score(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> dict[str, float]:
        """Returns both correlations and their mean, in [-1, 1]."""
        gold, predicted = right_numbers(examples), [answer.number for answer in answers]
        pearson, spearman = figures.pearson(gold, predicted), figures.spearman(gold, predicted)
        return {"pearson": pearson, "spearman": spearman, "average": (pearson + spearman) / 2}

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[NumberAnswer]]]) -> None:
        """Writes index and number, as the leaderboard takes them."""
        write_predictions(
            path,
            (((e.key, f"{a.number:.3f}") for e, a in zip(examples, part, strict=True)) for examples, part in answers),
        )

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[NumberAnswer]:
        """Reads such a file."""
        return predictions_of(path, examples, self.answer_of)

    def answer_of(self, prediction: str) -> NumberAnswer:
        """Returns the answer that a file has. Raises ValueError for what is no number from 0 to 5."""
        try:
            number = float(prediction)
        except ValueError:
            number = math.nan
        if not self.least <= number <= self.most:
            raise ValueError(f"must be a number from {self.least:.0f} to {self.most:.0f}. Received: {prediction!r}")
        return NumberAnswer(number)


def _label_rule(labels: Sequence[str], received: str) -> str:
    return f"the label must be one of {', '.join(labels)}. Received: {received!r}"
