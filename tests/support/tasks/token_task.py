"""A minimal task of token labels: `word/LABEL word/LABEL` on each line, every word one word piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bert_tf.config.files import staged_file
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows
from bert_tf.models import BertTokenClassifier
from bert_tf.reports.tasks.scored import ScoredSpans, Span
from bert_tf.tasks.base import Task
from bert_tf.training.losses import CLASSIFICATION


@dataclass(frozen=True)
class Sentence:
    place: str
    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TokenTask(Task):
    name: ClassVar[str] = "toy_tokens"
    metric: ClassVar[str] = "accuracy"
    predictions_name: ClassVar[str] = "predictions.txt"
    by_token: ClassVar[bool] = True
    needs_pooler: ClassVar[bool] = False

    labels: tuple[str, ...] = ()

    @property
    def objective(self):
        return CLASSIFICATION

    def read(self, path, input_errors, labelled=True):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            words, labels = zip(*(word.split("/") for word in line.split()), strict=True)
            yield Sentence(f"{path}: line {number}", words, labels)

    def fit_labels(self, examples):
        return replace(self, labels=tuple(sorted({label for example in examples for label in example.labels})))

    def encode(self, examples, tokenizer, length, labelled=True):
        ids = [tokenizer.tokenize([" ".join(example.words)]).values for example in examples]
        cls_id, sep_id = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
        rows = [np.concatenate([[cls_id], row, [sep_id]]) for row in ids]
        lengths = np.array([len(row) for row in rows])
        targets = {}
        if labelled:
            numbers = [[0, *(self.labels.index(label) for label in example.labels), 0] for example in examples]
            targets = {SINGLE_OUTPUT: np.concatenate(numbers).astype(np.int32)}
        weights = np.concatenate([[0, *np.ones(len(row) - 2), 0] for row in rows]).astype(np.float32)
        return EncodedRows(
            token_ids=np.concatenate(rows).astype(np.int32),
            row_splits=np.concatenate([[0], np.cumsum(lengths)]),
            first_lengths=lengths.astype(np.int32),
            pad_id=tokenizer.vocabulary.pad_id,
            targets=targets,
            weights={SINGLE_OUTPUT: weights} if labelled else {},
            examples=np.arange(len(rows)),
        )

    def build(self, backbone):
        return BertTokenClassifier(backbone, len(self.labels))

    def answers(self, examples, rows, outputs):
        best = outputs[SINGLE_OUTPUT].argmax(axis=1)
        return [
            tuple(self.labels[label] for label in best[begin + 1 : end - 1])
            for begin, end in zip(rows.row_splits, rows.row_splits[1:], strict=False)
        ]

    def score(self, examples, answers):
        pairs = [pair for e, a in zip(examples, answers, strict=True) for pair in zip(e.labels, a, strict=True)]
        return {"accuracy": sum(gold == found for gold, found in pairs) / len(pairs)}

    def score_details(self, examples, answers):
        def spans(labels):
            return tuple(Span(place, place + 1, label) for place, label in enumerate(labels))

        return [
            ScoredSpans(e.place, "", "x" * len(a), spans(e.labels), spans(a), 0.0)
            for e, a in zip(examples, answers, strict=True)
        ]

    def write(self, path, answers):
        with staged_file(path) as file:
            for _, part in answers:
                file.write("".join(f"{' '.join(answer)}\n" for answer in part).encode())

    def read_answers(self, path, examples):
        return [tuple(line.split()) for line in path.read_text().splitlines()]
