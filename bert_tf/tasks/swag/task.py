"""Task `swag`: multiple choice among endings (arXiv 1810.04805, section 4.4), for any file with SWAG's header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from bert_tf.config.files import staged_file
from bert_tf.encoding.choices import CONTEXT, START, ChoiceAnswer, ChoiceExample, ChoiceHead
from bert_tf.models import BertBackbone, BertMultipleChoice
from bert_tf.reports.tasks.scored import Scored, ScoredLabel, ScoredLabels
from bert_tf.tasks.base import Task, pairs_of
from bert_tf.tasks.example_scores import ExampleScores, mean_scores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.swag.files import PREDICTION, read_choices, read_predictions
from bert_tf.training.losses import CLASSIFICATION, Objective


@dataclass(frozen=True)
class SwagTask(ChoiceHead, Task[ChoiceExample, ChoiceAnswer]):
    """Multiple choice among endings, each scored as a pair."""

    metric: ClassVar[str] = "accuracy"
    predictions_name: ClassVar[str] = "predictions.csv"
    head: ClassVar[str] = "multiple_choice"
    objective: ClassVar[Objective] = CLASSIFICATION

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

    def serving_inputs(self, example: ChoiceExample) -> dict[str, Any]:
        """Returns `text` and `choices`."""
        return {"text": example.context, "choices": example.choices}

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
