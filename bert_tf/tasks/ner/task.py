"""Task `ner`: named entity recognition, one tag for each word (arXiv 1810.04805, section 5.3)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from bert_tf.config.files import staged_file
from bert_tf.encoding.tags import (
    MODEL_SCHEME,
    OUTSIDE,
    entities,
    entity_labels,
    entity_scores,
    in_scheme,
    scheme_of,
    type_of,
)
from bert_tf.encoding.words import NerAnswer, Sentence, WordsHead
from bert_tf.models import BertBackbone, BertTokenClassifier
from bert_tf.reports.tasks.scored import Scored, ScoredSpans, Span
from bert_tf.tasks.averaging import label_order, mean_probabilities
from bert_tf.tasks.base import Task, pairs_of
from bert_tf.tasks.example_scores import ExampleScores, f1_scores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.ner.files import read_columns, read_tags
from bert_tf.training.losses import CLASSIFICATION, Objective

Tags = tuple[str, ...]


@dataclass(frozen=True)
class NerTask(WordsHead, Task[Sentence, NerAnswer]):
    """Named entity recognition with column files; predictions are tags in the scheme of the training files.

    Columns are counted from the end if they are negative. `document_context` fills up a sentence's row with context
    words of its document; a file without `-DOCSTART-` lines is one document. A `scheme` of "" is detected in
    `fit_labels`; `labels` are () before it.
    """

    metric: ClassVar[str] = "f1"
    predictions_name: ClassVar[str] = "predictions.conll"
    needs_pooler: ClassVar[bool] = False
    head: ClassVar[str] = "token_classification"
    objective: ClassVar[Objective] = CLASSIFICATION

    token_column: int = 0
    tag_column: int = -1
    document_context: bool = False

    @property
    def types(self) -> frozenset[str]:
        """The entity types of the model."""
        return frozenset(type_of(label) for label in self.labels) - {""}

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[Sentence]:
        """Reads sentences; an entity type that does not occur in training is an input error.

        Tags that break the scheme are decoded as in conlleval; `validate_examples` rejects them in training files.
        """
        sentences = read_columns(path, self.token_column, self.tag_column, input_errors, labelled)
        if self.labels:
            sentences = (sentence for sentence in sentences if self._is_known(sentence, input_errors))
        return _in_documents(sentences) if self.document_context else sentences

    def _is_known(self, sentence: Sentence, input_errors: InputErrors) -> bool:
        """Returns True if all entity types of a sentence are known; otherwise adds an input error."""
        for number, tag in enumerate(sentence.tags):
            if tag != OUTSIDE and type_of(tag) not in self.types:
                known = ", ".join(sorted(self.types))
                input_errors.add(
                    sentence.place_of(number), f"type {type_of(tag)!r} never occurs in training; known: {known}"
                )
                return False
        return True

    def validate_examples(self, examples: Sequence[Sentence], path: Path) -> None:
        """Raises ValueError if there is no entity, or if tags are of several schemes and `scheme` is not set."""
        super().validate_examples(examples, path)
        if not any(tag != OUTSIDE for sentence in examples for tag in sentence.tags):
            raise ValueError(f"{path}: at least one entity is needed. Received: {OUTSIDE} for every word")
        if not self.scheme:
            _scheme(examples)

    def fit_labels(self, examples: Sequence[Sentence]) -> Self:
        """Returns the task with scheme and labels; prints the scheme to stderr if it was detected."""
        if self.labels:
            return self
        scheme = self.scheme or _scheme(examples)
        if not self.scheme:
            print(f"{examples[0].path}: the tags are {scheme}", file=sys.stderr)
        types = sorted({type_of(tag) for sentence in examples for tag in sentence.tags if tag != OUTSIDE})
        labels = (OUTSIDE, *(f"{letter}-{kind}" for kind in types for letter in "BI"))
        return replace(self, scheme=scheme, labels=labels)

    def import_labels(self, names: tuple[str, ...]) -> Self:
        """Returns the task with the model's tags. Raises ValueError unless they are O, B- and I- with types."""
        return replace(self, labels=entity_labels(names), scheme=self.scheme or MODEL_SCHEME)

    def targets(self, examples: Sequence[Sentence]) -> np.ndarray:
        """Returns the classes of all words, int32 (W,)."""
        index = {label: number for number, label in enumerate(self.labels)}
        tags = (in_scheme(sentence.tags, MODEL_SCHEME) for sentence in examples)
        return np.array([index[tag] for sentence in tags for tag in sentence], np.int32)

    def serving_inputs(self, example: Sentence) -> dict[str, Any]:
        """Returns `text`, the words with spaces between them."""
        return {"text": " ".join(example.words)}

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a token classifier."""
        return BertTokenClassifier(backbone, len(self.labels))

    def check_member(self, other: Self) -> None:
        """Raises ValueError for other labels, or if only one of the tasks has `document_context`."""
        label_order(self.labels, other.labels)
        if other.document_context != self.document_context:
            raise ValueError(
                f"an ensemble must have the same `document_context`, {self.document_context}. "
                f"Received: {other.document_context}"
            )

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[NerAnswer]]) -> list[NerAnswer]:
        """Returns the classes of the largest mean probability over all models, for each word.

        Words are those of the file, so models of different vocabularies are averaged. Tags are in this task's scheme.
        """
        labels = [task.labels for task in (self, *tasks)]
        means = (
            mean_probabilities([answer.distributions for answer in of_models], labels)
            for of_models in zip(*answers, strict=True)
        )
        return [self.tagged(mean, mean) for mean in means]

    def score(self, examples: Sequence[Sentence], answers: Sequence[NerAnswer]) -> dict[str, float]:
        """Returns the metrics of `entity_scores`."""
        return entity_scores([sentence.tags for sentence in examples], [answer.tags for answer in answers])

    def example_scores(self, examples: Sequence[Sentence], answers: Sequence[NerAnswer]) -> dict[str, ExampleScores]:
        """Returns the counts of correct, predicted and gold entities of each sentence."""
        spans = [(set(entities(s.tags)), set(entities(a.tags))) for s, a in zip(examples, answers, strict=True)]
        counts = [(len(gold & predicted), len(predicted), len(gold)) for gold, predicted in spans]
        return {"f1": f1_scores(*zip(*counts, strict=True))}

    def score_details(self, examples: Sequence[Sentence], answers: Sequence[NerAnswer]) -> Scored:
        """Returns gold and predicted entities of each sentence as spans; `right` is the F1 of the sentence."""
        return [_scored(sentence, answer.tags) for sentence, answer in zip(examples, answers, strict=True)]

    def write(self, path: Path, answers: Iterator[tuple[Sequence[Sentence], Sequence[NerAnswer]]]) -> None:
        r"""Writes the lines of the file with the predicted tag as last column, after the gold tag if there is one.

        conlleval reads this format; if columns are separated by tabs, with `-d '\t'`.
        """
        with staged_file(path) as file:
            for sentence, answer in pairs_of(answers):
                tagged = zip(sentence.written, answer.tags, strict=True)
                words = [f"{line}{sentence.separator}{tag}" for line, tag in tagged]
                file.write("".join(f"{line}\n" for line in (*sentence.before, *words, *sentence.after)).encode())

    def read_answers(self, path: Path, examples: Sequence[Sentence]) -> list[NerAnswer]:
        """Reads tags from the last column of a file of any program with the same words."""
        return [NerAnswer(tags) for tags in read_tags(path, examples, self.token_column)]


def _scheme(examples: Iterable[Sentence]) -> str:
    return scheme_of(
        (sentence.tags, [sentence.place_of(number) for number in range(len(sentence.tags))]) for sentence in examples
    )


def _in_documents(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yields the sentences with their document."""
    group: list[Sentence] = []
    for sentence in sentences:
        if sentence.begins_document:
            yield from _document(group)
            group = []
        group.append(sentence)
    yield from _document(group)


def _document(sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    words = tuple(sentence.words for sentence in sentences)
    for number, sentence in enumerate(sentences):
        yield replace(sentence, document=words, number=number)


def _scored(sentence: Sentence, tags: Tags) -> ScoredSpans:
    gold, predicted = entities(sentence.tags), entities(tags)
    begins = np.cumsum([0, *(len(word) + 1 for word in sentence.words)]).tolist()
    gold_spans, predicted_spans = (
        tuple(Span(begins[entity.start], begins[entity.end] - 1, entity.type) for entity in side)
        for side in (gold, predicted)
    )
    total = len(gold) + len(predicted)
    f1 = 2 * len(set(gold) & set(predicted)) / total if total else 1.0
    return ScoredSpans(sentence.place, "", " ".join(sentence.words), gold_spans, predicted_spans, f1)
