"""Tasks of GLUE (arXiv 1804.07461), with the label order of the original processors and the leaderboard's metrics.

If the leaderboard averages two metrics of a task, `average` is their mean and the selection metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample
from bert_tf.reports.tasks.scored import ScoredNumbers
from bert_tf.tasks import metrics
from bert_tf.tasks.base import pairs_of
from bert_tf.tasks.classify.base import NumberTask, TextTask, right_numbers
from bert_tf.tasks.example_scores import ExampleScores, label_f1_scores, matthews_scores
from bert_tf.tasks.glue.files import Layout, predictions_of, read_glue, write_predictions
from bert_tf.tasks.input_errors import InputErrors

_BINARY = ("0", "1")
# Column names in the labelled file of the diagnostic set.
_DIAGNOSTIC = {"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"}


@dataclass(frozen=True)
class GlueTask(TextTask):
    """Base class of GLUE's classification tasks."""

    predictions_name: ClassVar[str] = "predictions.tsv"
    metric: ClassVar[str] = "accuracy"
    layout: ClassVar[Layout] = Layout()

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads examples; an unknown label is an input error."""
        for example in read_glue(path, self.layout, self.text_names, input_errors, labelled):
            if labelled and example.label not in self.labels:
                input_errors.add(example.place, _label_rule(self.labels, str(example.label)))
                continue
            yield example

    def score(self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]) -> dict[str, float]:
        """Returns the leaderboard's metrics, in [0, 1] or [-1, 1]."""
        return self.metrics_of([str(example.label) for example in examples], [answer.label for answer in answers])

    def metrics_of(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the metrics of predicted labels."""
        return {"accuracy": metrics.accuracy(gold, predicted)}

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[LabelAnswer]]]) -> None:
        """Writes index and label in the leaderboard's format."""
        write_predictions(path, ((example.key, answer.label) for example, answer in pairs_of(answers)))

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[LabelAnswer]:
        """Reads predictions in the leaderboard's format; their probabilities are ()."""
        return predictions_of(path, examples, self.answer_of)

    def answer_of(self, prediction: str) -> LabelAnswer:
        """Parses the label of a prediction file. Raises ValueError for an unknown label."""
        if prediction not in self.labels:
            raise ValueError(_label_rule(self.labels, prediction))
        return LabelAnswer(prediction, ())


@dataclass(frozen=True)
class ColaTask(GlueTask):
    """The Corpus of Linguistic Acceptability: 1 if a sentence is acceptable."""

    name: ClassVar[str] = "cola"
    metric: ClassVar[str] = "matthews"
    layout: ClassVar[Layout] = Layout(headerless=("source", "label", "star", "sentence"))

    text_names: tuple[str, ...] = ("sentence",)
    labels: tuple[str, ...] = _BINARY

    def metrics_of(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the Matthews correlation, and the accuracy, which the leaderboard does not use."""
        return {"matthews": metrics.matthews(gold, predicted)} | super().metrics_of(gold, predicted)

    def label_scores(self, gold: list[str], predicted: list[str]) -> dict[str, ExampleScores]:
        """Returns statistics for the metrics of `metrics_of`."""
        return {"matthews": matthews_scores(gold, predicted)} | super().label_scores(gold, predicted)


@dataclass(frozen=True)
class Sst2Task(GlueTask):
    """The Stanford Sentiment Treebank: 1 for positive sentiment."""

    name: ClassVar[str] = "sst2"

    text_names: tuple[str, ...] = ("sentence",)
    labels: tuple[str, ...] = _BINARY


@dataclass(frozen=True)
class _SameTask(GlueTask):
    """Base class of paraphrase tasks: 1 if two texts have the same meaning."""

    metric: ClassVar[str] = "average"

    labels: tuple[str, ...] = _BINARY

    def metrics_of(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the F1 of label 1, the accuracy, and their mean."""
        f1, accuracy = metrics.f1(gold, predicted, "1"), metrics.accuracy(gold, predicted)
        return {"f1": f1, "accuracy": accuracy, "average": (f1 + accuracy) / 2}

    def label_scores(self, gold: list[str], predicted: list[str]) -> dict[str, ExampleScores]:
        """Returns statistics for the F1 of label 1 and the accuracy."""
        return {"f1": label_f1_scores(gold, predicted, "1")} | super().label_scores(gold, predicted)


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
    """GLUE's diagnostic set, for MNLI models."""

    name: ClassVar[str] = "ax"
    metric: ClassVar[str] = "matthews"
    layout: ClassVar[Layout] = Layout(aliases=_DIAGNOSTIC)

    def metrics_of(self, gold: list[str], predicted: list[str]) -> dict[str, float]:
        """Returns the Matthews correlation of three classes, and the accuracy, which the leaderboard does not use."""
        return {"matthews": metrics.matthews(gold, predicted)} | super().metrics_of(gold, predicted)

    def label_scores(self, gold: list[str], predicted: list[str]) -> dict[str, ExampleScores]:
        """Returns statistics for the metrics of `metrics_of`."""
        return {"matthews": matthews_scores(gold, predicted)} | super().label_scores(gold, predicted)


@dataclass(frozen=True)
class QnliTask(GlueTask):
    """Question-answering NLI: `entailment` if a sentence answers a question."""

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
    """Winograd NLI: 1 if the second sentence follows from the first."""

    name: ClassVar[str] = "wnli"

    text_names: tuple[str, ...] = ("sentence1", "sentence2")
    labels: tuple[str, ...] = _BINARY


@dataclass(frozen=True)
class StsbTask(NumberTask):
    """The Semantic Textual Similarity Benchmark: similarity of two sentences, from 0 to 5."""

    name: ClassVar[str] = "stsb"
    metric: ClassVar[str] = "average"
    predictions_name: ClassVar[str] = "predictions.tsv"
    layout: ClassVar[Layout] = Layout(label="score")
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = 5.0

    text_names: tuple[str, ...] = ("sentence1", "sentence2")

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads examples; a label that is not a number from 0 to 5 is an input error."""
        for example in read_glue(path, self.layout, self.text_names, input_errors, labelled):
            try:
                if labelled:
                    self.answer_of(str(example.label))
            except ValueError as error:
                input_errors.add(example.place, str(error))
                continue
            yield example

    def _written(self, answers: Sequence[NumberAnswer]) -> list[float]:
        """Returns the numbers for the leaderboard, clipped to [0, 5] and rounded to three decimals."""
        return np.clip([answer.number for answer in answers], self.least, self.most).round(3).tolist()

    def example_scores(
        self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]
    ) -> dict[str, ExampleScores]:
        """Returns the statistics of both correlations of the written numbers."""
        return super().example_scores(examples, [NumberAnswer(number) for number in self._written(answers)])

    def score_details(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> ScoredNumbers:
        """Returns the written numbers with the gold ones."""
        return super().score_details(examples, [NumberAnswer(number) for number in self._written(answers)])

    def score(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> dict[str, float]:
        """Returns the Pearson and Spearman correlations of the written numbers and their mean, in [-1, 1]."""
        gold, predicted = right_numbers(examples), self._written(answers)
        pearson, spearman = metrics.pearson(gold, predicted), metrics.spearman(gold, predicted)
        return {"pearson": pearson, "spearman": spearman, "average": (pearson + spearman) / 2}

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[NumberAnswer]]]) -> None:
        """Writes index and number in the leaderboard's format."""
        rows = (
            (example.key, f"{number:.3f}")
            for examples, part in answers
            for example, number in zip(examples, self._written(part), strict=True)
        )
        write_predictions(path, rows)

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[NumberAnswer]:
        """Reads predictions in the leaderboard's format."""
        return predictions_of(path, examples, self.answer_of)

    def answer_of(self, prediction: str) -> NumberAnswer:
        """Parses the number of a prediction file. Raises ValueError if it is not a number from 0 to 5."""
        try:
            number = float(prediction)
        except ValueError:
            number = math.nan
        if not self.least <= number <= self.most:
            raise ValueError(f"must be a number from {self.least:.0f} to {self.most:.0f}. Received: {prediction!r}")
        return NumberAnswer(number)


def _label_rule(labels: Sequence[str], received: str) -> str:
    return f"the label must be one of {', '.join(labels)}. Received: {received!r}"
