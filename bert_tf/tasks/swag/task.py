"""`swag`: the best of several endings (arXiv 1810.04805, section 4.4); SWAG and any file of its header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import keras
import numpy as np

from bert_tf.data.atomic_files import staged_file
from bert_tf.models import BertBackbone, BertMultipleChoice
from bert_tf.tasks.base import Task
from bert_tf.tasks.classify.rows import TextExample, text_rows
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.tasks.scored import Scored, ScoredLabel, ScoredLabels
from bert_tf.tasks.swag.files import CONTEXT, PREDICTION, START, ChoiceExample, read_choices, read_predictions
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.losses import CLASSIFICATION, SINGLE_OUTPUT, Objective


@dataclass(frozen=True)
class ChoiceAnswer:
    """The ending that was chosen, by number, and the probability of each; () where only the number was read."""

    choice: int
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class SwagTask(Task[ChoiceExample, ChoiceAnswer]):
    """The choice among endings, each scored as one pair: `[CLS] sent1 [SEP] sent2 ending [SEP]`.

    Args:
        choices: endings of a row; 0 before `fitted`, and where a model that others fine-tuned answers any number.
    """

    name: ClassVar[str] = "swag"
    metric: ClassVar[str] = "accuracy"
    predictions_name: ClassVar[str] = "predictions.csv"

    choices: int = 0

    @property
    def objective(self) -> Objective:
        """Softmax cross-entropy over the endings."""
        return CLASSIFICATION

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[ChoiceExample]:
        """Reads rows, each with as many endings as the header names; of a fitted task, with as many as in training."""
        return read_choices(path, input_errors, labelled, self.choices)

    def fit_labels(self, examples: Sequence[ChoiceExample]) -> Self:
        """Returns the task with the number of endings."""
        return replace(self, choices=len(examples[0].endings))

    def validate_examples(self, examples: Sequence[ChoiceExample], path: Path) -> None:
        """Raises ValueError where the training files have different numbers of endings."""
        super().validate_examples(examples, path)
        for example in examples:
            if len(example.endings) != len(examples[0].endings):
                raise ValueError(
                    f"{example.place}: all training files must have the {len(examples[0].endings)} endings of {path}. "
                    f"Received: {len(example.endings)}"
                )

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: BertTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Returns a pair for every ending; where it is too long, the longer side is cut at its end."""
        pairs = [
            (example.context, f"{example.start} {ending}".strip()) for example in examples for ending in example.endings
        ]
        rows = text_rows([TextExample("", pair) for pair in pairs], tokenizer, length)
        targets = {SINGLE_OUTPUT: np.array([example.label for example in examples], np.int32)} if labelled else {}
        choices = self.choices or len(examples[0].endings)
        return replace(rows, targets=targets, examples=np.arange(len(examples)), choices=choices)

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model that scores every ending."""
        return BertMultipleChoice(backbone)

    def answers(self, examples: Sequence[ChoiceExample], rows: EncodedRows, outputs: Arrays) -> list[ChoiceAnswer]:
        """Returns the most probable ending, and the probabilities."""
        logits = outputs[SINGLE_OUTPUT]
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        return [ChoiceAnswer(int(row.argmax()), tuple(row.tolist())) for row in probabilities]

    def score(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> dict[str, float]:
        """Returns the accuracy."""
        right = sum(answer.choice == example.label for example, answer in zip(examples, answers, strict=True))
        return {"accuracy": right / len(examples)}

    def score_details(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> Scored:
        """Returns the probabilities of the endings, by the names of their columns."""
        names = tuple(f"ending{number}" for number in range(self.choices))
        rows = []
        for example, answer in zip(examples, answers, strict=True):
            texts = ((CONTEXT, example.context), (START, example.start), *zip(names, example.endings, strict=True))
            rows.append(ScoredLabel(example.place, texts, f"ending{example.label}", answer.probabilities))
        return ScoredLabels(names, rows)

    def write(self, path: Path, answers: Iterator[tuple[Sequence[ChoiceExample], Sequence[ChoiceAnswer]]]) -> None:
        """Writes CSV with each row's index, without a name, and `pred`, the number of the ending.

        It is what the program of SWAG's authors writes (rowanz/swagaf, csv_predict.py). The probabilities stand beside,
        in `NAME.probabilities.jsonl`.
        """
        beside = path.with_name(f"{path.stem}.probabilities.jsonl")
        with staged_file(path) as file, staged_file(beside) as further:
            file.write(f",{PREDICTION}\n".encode())
            for examples, part in answers:
                for example, answer in zip(examples, part, strict=True):
                    file.write(f"{example.number},{answer.choice}\n".encode())
                    row = {"index": example.number, PREDICTION: answer.choice, "probabilities": answer.probabilities}
                    further.write((json.dumps(row) + "\n").encode())

    def read_answers(self, path: Path, examples: Sequence[ChoiceExample]) -> list[ChoiceAnswer]:
        """Reads the column `pred`; rows without an index are in the order of the file."""
        return [ChoiceAnswer(choice) for choice in read_predictions(path, examples)]
