"""Tasks `classify` and `regression`: a label or a number for a text or a pair of texts, from the user's files."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from bert_tf.config.base import parse_json
from bert_tf.config.files import staged_file
from bert_tf.encoding.texts import LabelAnswer, NumberAnswer, TextExample
from bert_tf.tasks import metrics
from bert_tf.tasks.base import pairs_of
from bert_tf.tasks.classify.base import NumberTask, TextTask, right_numbers
from bert_tf.tasks.classify.files import lines_of, read_rows
from bert_tf.tasks.input_errors import InputErrors

BALANCED = "balanced"
PREDICTIONS_NAME = "predictions.jsonl"
logger = logging.getLogger(__name__)
# Texts that programs write for a missing value.
_MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>"))
# More distinct numbers than a scale of grades has.
_MANY_NUMBERS = 20
_SHOWN = 5


@dataclass(frozen=True)
class ClassifyTask(TextTask):
    """Text classification with files of `files.read_rows`.

    Args:
        class_weights: () weighs all examples 1; `("balanced",)` weighs each by the inverse frequency of its label in
            training; `("spam=5", ...)` sets the weights of the named labels, the others are 1.
        label_weights: the resulting weights, in the order of `labels`; () if all are 1, and before `fit_labels`.
    """

    name: ClassVar[str] = "classify"
    metric: ClassVar[str] = "accuracy"
    predictions_name: ClassVar[str] = PREDICTIONS_NAME

    label_column: str = "label"
    class_weights: tuple[str, ...] = ()
    label_weights: tuple[float, ...] = ()

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads examples; a label that does not occur in training is an input error."""
        for example in _read(path, self.text_names, self.label_column, input_errors, labelled):
            if labelled and self.labels and example.label not in self.labels:
                known = ", ".join(self.labels)
                fault = f"label {example.label!r} never occurs in training; known: {known}"
                input_errors.add(example.place, f"{fault}. Correct it, or add training examples of this label")
                continue
            yield example

    def validate_examples(self, examples: Sequence[TextExample], path: Any) -> None:
        """Raises ValueError for fewer than two labels; logs labels that look like mistakes."""
        super().validate_examples(examples, path)
        for remark in label_remarks(Counter(str(example.label) for example in examples)):
            logger.warning("%s: %s", path, remark)

    def fit_labels(self, examples: Sequence[TextExample]) -> Self:
        """Returns the task with labels and weights. Raises ValueError for a weight of an unknown label."""
        task = super().fit_labels(examples)
        if not self.class_weights:
            return task
        if self.class_weights == (BALANCED,):
            gold = [str(example.label) for example in examples]
            balanced = compute_class_weight(BALANCED, classes=np.array(task.labels), y=gold)
            return replace(task, label_weights=tuple(balanced.tolist()))
        weights = dict(map(_label_weight, self.class_weights))
        for label in weights:
            if label not in task.labels:
                known = ", ".join(task.labels)
                raise ValueError(f"`class_weights`: label {label!r} never occurs in training; known: {known}")
        return replace(task, label_weights=tuple(weights.get(label, 1.0) for label in task.labels))

    def targets(self, examples: Sequence[TextExample]) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the label indices and their weights."""
        targets, _ = super().targets(examples)
        return targets, np.array(self.label_weights, np.float32)[targets] if self.label_weights else None

    def score(self, examples: Sequence[TextExample], answers: Sequence[LabelAnswer]) -> dict[str, float]:
        """Returns accuracy, macro F1, and the accuracy of the majority baseline."""
        gold, predicted = [str(example.label) for example in examples], [answer.label for answer in answers]
        return {
            "accuracy": metrics.accuracy(gold, predicted),
            "macro_f1": metrics.macro_f1(gold, predicted),
            "majority": max(gold.count(label) for label in set(gold)) / len(gold),
        }

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[LabelAnswer]]]) -> None:
        """Writes JSON lines with the texts, `label`, and `probabilities` by label name."""
        with staged_file(path) as file:
            for example, answer in pairs_of(answers):
                probabilities = dict(zip(self.labels, answer.probabilities, strict=True))
                row = {"label": answer.label, "probabilities": probabilities}
                file.write(_line(dict(self.named_texts(example)) | row))

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[LabelAnswer]:
        """Reads `label` from JSON lines in the order of the examples."""
        return [LabelAnswer(str(label), ()) for _, label in _values(path, "label", len(examples))]


@dataclass(frozen=True)
class RegressionTask(NumberTask):
    """Regression with files of `files.read_rows`."""

    name: ClassVar[str] = "regression"
    metric: ClassVar[str] = "pearson"
    predictions_name: ClassVar[str] = PREDICTIONS_NAME

    label_column: str = "label"

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[TextExample]:
        """Reads examples; a label that is not a number is an input error."""
        for example in _read(path, self.text_names, self.label_column, input_errors, labelled):
            if labelled and not _is_number(example.label):
                input_errors.add(example.place, f"`{self.label_column}` must be a number. Received: {example.label!r}")
                continue
            yield example

    def score(self, examples: Sequence[TextExample], answers: Sequence[NumberAnswer]) -> dict[str, float]:
        """Returns the Pearson and Spearman correlations, in [-1, 1], and the mean squared error."""
        gold, predicted = right_numbers(examples), [answer.number for answer in answers]
        return {
            "pearson": metrics.pearson(gold, predicted),
            "spearman": metrics.spearman(gold, predicted),
            "mse": metrics.mean_squared_error(gold, predicted),
        }

    def write(self, path: Path, answers: Iterator[tuple[Sequence[TextExample], Sequence[NumberAnswer]]]) -> None:
        """Writes JSON lines with the texts and `number`."""
        with staged_file(path) as file:
            for example, answer in pairs_of(answers):
                file.write(_line(dict(self.named_texts(example)) | {"number": answer.number}))

    def read_answers(self, path: Path, examples: Sequence[TextExample]) -> list[NumberAnswer]:
        """Reads `number` from JSON lines in the order of the examples."""
        numbers = []
        for place, number in _values(path, "number", len(examples)):
            if not _is_number(number):
                raise ValueError(f"{place}: `number` must be a number. Received: {number!r}")
            numbers.append(NumberAnswer(float(number)))
        return numbers


def label_remarks(labels: Counter[str]) -> list[str]:
    """Returns remarks on labels that look like mistakes: equal but for case, missing, numbers, or of one example."""
    remarks = []
    alike: dict[str, list[str]] = {}
    for label in sorted(labels):
        alike.setdefault(" ".join(label.casefold().split()), []).append(label)
    for same in (same for same in alike.values() if len(same) > 1):
        counts = " and ".join(f"{label!r} ({labels[label]})" for label in same)
        remarks.append(f"the labels {counts} differ in case or blanks only. Make them equal if they mean the same.")
    for label in sorted(label for label in labels if label.casefold() in _MISSING):
        remarks.append(f"{labels[label]} rows have the label {label!r}. Remove them if their labels are missing.")
    if len(labels) > _MANY_NUMBERS and all(map(_is_number, labels)):
        remarks.append(f"the labels are {len(labels)} numbers. Use --regression if they are quantities.")
    elif rare := sorted(label for label in labels if labels[label] == 1):
        shown = ", ".join(map(repr, rare[:_SHOWN])) + (", ..." if len(rare) > _SHOWN else "")
        remarks.append(f"{len(rare)} of {len(labels)} labels have one example: {shown}. Add examples of them.")
    return remarks


def _read(
    path: Path, text_names: Sequence[str], label_column: str, input_errors: InputErrors, labelled: bool
) -> Iterator[TextExample]:
    columns = (*text_names, label_column) if labelled else tuple(text_names)
    for place, cells in read_rows(path, columns, input_errors):
        yield TextExample(place, cells[: len(text_names)], cells[-1].strip() if labelled else None)


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()


def _values(path: Path, key: str, count: int) -> Iterator[tuple[str, Any]]:
    """Yields file and line, and the value of `key`, for each of `count` JSON lines."""
    number = 0
    for number, line in lines_of(path):
        place = f"{path}: line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{place}: not JSON: {error}") from error
        if not isinstance(row, dict) or key not in row:
            raise ValueError(f"{place}: must be an object with the key `{key}`. Received: {line[:80]}")
        yield place, row[key]
    if number != count:
        raise ValueError(f"{path}: must have {count} lines, one for each example. Received: {number}")


def _label_weight(text: str) -> tuple[str, float]:
    label, sign, weight = text.rpartition("=")
    if not sign or not _is_number(weight) or float(weight) <= 0:
        raise ValueError(f"`class_weights` must be balanced, none, or label=weight, above 0. Received: {text!r}")
    return label, float(weight)


def _is_number(text: Any) -> bool:
    try:
        return math.isfinite(float(text))
    except (TypeError, ValueError):
        return False
