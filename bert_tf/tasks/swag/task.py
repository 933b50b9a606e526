"""Task `swag`: multiple choice among endings (arXiv 1810.04805, section 4.4), for any file with SWAG's header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np
from scipy.special import softmax

from bert_tf.config.files import staged_file
from bert_tf.models import BertBackbone, BertMultipleChoice
from bert_tf.reports.tasks.scored import Scored, ScoredLabel, ScoredLabels
from bert_tf.tasks.base import Task, pairs_of
from bert_tf.tasks.classify.rows import TextExample, text_rows
from bert_tf.tasks.example_scores import ExampleScores, mean_scores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.predictions import ChoicePrediction, check_unranked
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.tasks.swag.files import CONTEXT, PREDICTION, START, ChoiceExample, read_choices, read_predictions
from bert_tf.tasks.swag.texts import choice_examples
from bert_tf.text.tokenizer import TextTokenizer
from bert_tf.training.losses import CLASSIFICATION, SINGLE_OUTPUT, Objective


@dataclass(frozen=True)
class ChoiceAnswer:
    """The number of the predicted ending, and the probability of each; () if only the number was read from a file."""

    choice: int
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class SwagTask(Task[ChoiceExample, ChoiceAnswer]):
    """Multiple choice among endings, each scored as a pair; `choices` is 0 if any number is accepted."""

    name: ClassVar[str] = "swag"
    metric: ClassVar[str] = "accuracy"
    predictions_name: ClassVar[str] = "predictions.csv"
    head: ClassVar[str] = "multiple_choice"
    objective: ClassVar[Objective] = CLASSIFICATION

    choices: int = 0

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[ChoiceExample]:
        """Reads examples; after `fit_labels`, the number of endings must be that of training."""
        return read_choices(path, input_errors, labelled, self.choices)

    def fit_labels(self, examples: Sequence[ChoiceExample]) -> Self:
        """Returns the task with the number of endings."""
        return replace(self, choices=len(examples[0].endings))

    def validate_examples(self, examples: Sequence[ChoiceExample], path: Path) -> None:
        """Raises ValueError if the training files have different numbers of endings."""
        super().validate_examples(examples, path)
        for example in examples:
            if len(example.endings) != len(examples[0].endings):
                raise ValueError(
                    f"{example.place}: all training files must have the {len(examples[0].endings)} endings of {path}. "
                    f"Received: {len(example.endings)}"
                )

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes a pair for each ending; the longer text of a pair is truncated at its end."""
        pairs = [(example.context, choice) for example in examples for choice in _choices(example)]
        rows = text_rows([TextExample("", pair) for pair in pairs], tokenizer, length)
        targets = {SINGLE_OUTPUT: np.array([example.label for example in examples], np.int32)} if labelled else {}
        choices = self.choices or len(examples[0].endings)
        return replace(rows, targets=targets, examples=np.arange(len(examples)), choices=choices)

    def serving_inputs(self, example: ChoiceExample) -> dict[str, Any]:
        """Returns `text` and `choices`."""
        return {"text": example.context, "choices": _choices(example)}

    def examples_of(self, x: Any) -> list[ChoiceExample]:
        """Returns texts and their choices, or the columns of SWAG's files, as examples.

        A choice takes the place of an ending, without `sent2`. Raises ConfigError for different numbers of choices.
        """
        return choice_examples(x, self.choices)

    def predictions(
        self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer], top_k: int | None = None
    ) -> list[ChoicePrediction]:
        """Returns the most probable choice and all probabilities. Raises ConfigError for `top_k`."""
        check_unranked(self.name, top_k)
        return [{"choice": answer.choice, "probabilities": list(answer.probabilities)} for answer in answers]

    def check_member(self, other: Self) -> None:
        """Raises ValueError for another number of choices."""
        if self.choices and other.choices and other.choices != self.choices:
            raise ValueError(
                f"an ensemble must have the same number of choices, {self.choices}. Received: {other.choices}"
            )

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[ChoiceAnswer]]) -> list[ChoiceAnswer]:
        """Returns the choices of the largest mean probability over all models."""
        means = np.mean([[answer.probabilities for answer in of_model] for of_model in answers], axis=0)
        return [ChoiceAnswer(int(row.argmax()), tuple(row.tolist())) for row in means]

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model that scores each ending."""
        return BertMultipleChoice(backbone)

    def answers(self, examples: Sequence[ChoiceExample], rows: EncodedRows, outputs: Arrays) -> list[ChoiceAnswer]:
        """Returns the most probable ending and the probabilities of all endings."""
        probabilities = softmax(outputs[SINGLE_OUTPUT], axis=1)
        return [ChoiceAnswer(int(row.argmax()), tuple(row.tolist())) for row in probabilities]

    def score(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> dict[str, float]:
        """Returns the accuracy."""
        correct = sum(answer.choice == example.label for example, answer in zip(examples, answers, strict=True))
        return {"accuracy": correct / len(examples)}

    def example_scores(
        self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]
    ) -> dict[str, ExampleScores]:
        """Returns the correctness of each choice."""
        pairs = zip(examples, answers, strict=True)
        return {"accuracy": mean_scores([float(answer.choice == example.label) for example, answer in pairs])}

    def score_details(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> Scored:
        """Returns the probabilities of the endings, labelled by their columns."""
        names = tuple(f"ending{number}" for number in range(self.choices))
        rows = []
        for example, answer in zip(examples, answers, strict=True):
            texts = ((CONTEXT, example.context), (START, example.start), *zip(names, example.endings, strict=True))
            rows.append(ScoredLabel(example.place, texts, f"ending{example.label}", answer.probabilities))
        return ScoredLabels(names, rows)

    def write(self, path: Path, answers: Iterator[tuple[Sequence[ChoiceExample], Sequence[ChoiceAnswer]]]) -> None:
        """Writes CSV with an unnamed index column and `pred`, the number of the ending.

        The format is that of SWAG's authors (rowanz/swagaf, csv_predict.py). The probabilities are written to
        `NAME.probabilities.jsonl`.
        """
        probabilities_path = path.with_name(f"{path.stem}.probabilities.jsonl")
        with staged_file(path) as file, staged_file(probabilities_path) as probabilities_file:
            file.write(f",{PREDICTION}\n".encode())
            for example, answer in pairs_of(answers):
                file.write(f"{example.number},{answer.choice}\n".encode())
                row = {"index": example.number, PREDICTION: answer.choice, "probabilities": answer.probabilities}
                probabilities_file.write((json.dumps(row) + "\n").encode())

    def read_answers(self, path: Path, examples: Sequence[ChoiceExample]) -> list[ChoiceAnswer]:
        """Reads the column `pred`; rows without an index are in the order of the examples."""
        return [ChoiceAnswer(choice) for choice in read_predictions(path, examples)]


def _choices(example: ChoiceExample) -> list[str]:
    """Returns the endings of an example, each after its beginning."""
    return [f"{example.start} {ending}".strip() for ending in example.endings]
