"""SQuAD 1.1 and 2.0, and files of their layout: spans that answer questions (arXiv 1810.04805, 4.2 and 4.3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import keras

from bert_tf.models import BertBackbone, BertSpanPredictor
from bert_tf.tasks.base import Task
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.rows import Arrays, EncodedRows
from bert_tf.tasks.scored import Scored, ScoredSpans, Span
from bert_tf.tasks.squad.answers import SquadAnswer, average, find_answers
from bert_tf.tasks.squad.files import SquadExample, read_json_object, read_squad
from bert_tf.tasks.squad.metric import Points, best_threshold, figures_v1, figures_v2, points_v1, points_v2
from bert_tf.tasks.squad.predictions import JsonObjectWriter, candidates_as_json
from bert_tf.tasks.squad.windows import Windows, make_windows
from bert_tf.text.tokenizer import BertTokenizer
from bert_tf.training.losses import SPANS, Objective

logger = logging.getLogger(__name__)
# [CLS], two [SEP] and a token of the context.
_LEAST_BESIDE_QUERY = 4
_SHOWN_IDS = 5


@dataclass(frozen=True)
class Squad1Task(Task[SquadExample, SquadAnswer]):
    """Questions that have an answer, as of SQuAD 1.1.

    Args:
        doc_stride: tokens from the beginning of one window of a context to that of the next.
        max_query_length: tokens of a question that are read.
        max_answer_length: tokens of an answer at most.
        n_best: answers to write for each question.
    """

    name: ClassVar[str] = "squad1"
    metric: ClassVar[str] = "f1"
    predictions_name: ClassVar[str] = "predictions.json"
    by_token: ClassVar[bool] = True
    needs_pooler: ClassVar[bool] = False
    default_length: ClassVar[int] = 384
    may_be_impossible: ClassVar[bool] = False
    """Whether there are questions without an answer."""

    doc_stride: int = 128
    max_query_length: int = 64
    max_answer_length: int = 30
    n_best: int = 20

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {getattr(self, name)}")

    @property
    def objective(self) -> Objective:
        """The mean of the cross-entropies of the first and the last token."""
        return SPANS

    @property
    def threshold(self) -> float:
        """Of null odds, above which there is no answer."""
        return float("inf")

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[SquadExample]:
        """Reads questions; an answer that its context does not have at its offset is a fault."""
        return read_squad(path, input_errors, labelled, self.may_be_impossible)

    def encode(
        self, examples: Sequence[SquadExample], tokenizer: BertTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Returns the windows of every question.

        Raises:
            ValueError: where rows of `length` have no place for a context.
        """
        if length < self.max_query_length + _LEAST_BESIDE_QUERY:
            raise ValueError(
                f"`max_seq_length` must exceed `max_query_length` by {_LEAST_BESIDE_QUERY} at least. "
                f"Received: {length} and {self.max_query_length}"
            )
        windows = make_windows(examples, tokenizer, length, self.doc_stride, self.max_query_length, labelled)
        apart = windows.held <= self.doc_stride
        if (apart[:-1] & (windows.examples[:-1] == windows.examples[1:])).any():
            logger.warning(
                "`doc_stride` of %d leaves windows of some contexts without overlap: answers across them are lost",
                self.doc_stride,
            )
        return windows

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model of where answers start and end."""
        return BertSpanPredictor(backbone)

    def answers(self, examples: Sequence[SquadExample], rows: EncodedRows, outputs: Arrays) -> list[SquadAnswer]:
        """Returns the best span of each context, the n best ones, and for squad2 null odds."""
        if not isinstance(rows, Windows):
            raise TypeError(f"`rows` must be what `encode` returns. Received: {type(rows).__name__}")
        limits = (self.max_answer_length, self.n_best, self.may_be_impossible, self.threshold)
        return list(find_answers(examples, rows, outputs, *limits))

    def averaged(self, others: Sequence[Self], answers: Sequence[Sequence[SquadAnswer]]) -> list[SquadAnswer]:
        """Returns for each question the text of the largest mean probability among the n best of all models.

        For squad2 it is "" where the mean of their null odds is above the mean of their thresholds.
        """
        threshold = sum(task.threshold for task in (self, *others)) / (1 + len(others))
        return [average(of_models, self.n_best, threshold) for of_models in zip(*answers, strict=True)]

    def points(self, example: SquadExample, predicted: str) -> Points:
        """Returns what an answer earns."""
        return points_v1([gold.text for gold in example.answers], predicted)

    def all_points(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> list[Points | None]:
        """Returns what every answer earns; None for one that is missing."""
        pairs = zip(examples, (answer.text for answer in answers), strict=True)
        return [None if text is None else self.points(example, text) for example, text in pairs]

    def score(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
        """Returns `exact` and `f1` of evaluate-v1.1.py, in percent, and `missing` where there are such predictions."""
        return figures_v1(self.all_points(examples, answers)) | missing(examples, answers)

    def score_details(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> Scored:
        """Returns spans of the contexts; what is right is the F1."""
        return [self._scored(example, answer) for example, answer in zip(examples, answers, strict=True)]

    def _scored(self, example: SquadExample, answer: SquadAnswer) -> ScoredSpans:
        text = answer.text or ""
        # A file of predictions has no offsets; a text that the context lacks is a span of nothing.
        start = answer.start if answer.start >= 0 else example.context.find(text)
        limit = start + len(text) if start >= 0 else 0
        return ScoredSpans(
            place=example.place,
            heading=example.question,
            text=example.context,
            gold=tuple(dict.fromkeys(Span(gold.start, gold.limit, "answer") for gold in example.answers)),
            predicted=(Span(max(start, 0), limit, "answer"),) if text else (),
            right=0.0 if answer.text is None else self.points(example, text).f1,
        )

    def write(self, path: Path, answers: Iterator[tuple[Sequence[SquadExample], Sequence[SquadAnswer]]]) -> None:
        """Writes a JSON object of texts by id, and beside it the n best and, for squad2, the null odds.

        For `predictions.json` these are `predictions.nbest.json` and `predictions.null_odds.json`.
        """
        with ExitStack() as stack:

            def writer(kind: str) -> JsonObjectWriter:
                name = f"{path.stem}.{kind}.json" if kind else path.name
                return stack.enter_context(JsonObjectWriter(path.with_name(name)))

            texts, candidates = writer(""), writer("nbest")
            odds = writer("null_odds") if self.may_be_impossible else None
            for examples, part in answers:
                for example, answer in zip(examples, part, strict=True):
                    texts.add(example.id, answer.text)
                    candidates.add(example.id, candidates_as_json(answer.candidates))
                    if odds:
                        odds.add(example.id, answer.null_odds)

    def read_answers(self, path: Path, examples: Sequence[SquadExample]) -> list[SquadAnswer]:
        """Reads texts by id.

        As in the official scripts, a question without a prediction scores 0, and predictions of other questions are
        not read.

        Raises:
            ValueError: naming the file and an id, for an id that stands twice, a prediction that is no text, and where
                there is none for any of the questions.
        """
        texts = read_json_object(path)
        for example in examples:
            if not isinstance(texts.get(example.id, ""), str):
                raise ValueError(f"{path}: id {example.id}: must be a text. Received: {texts[example.id]!r}")
        if not any(example.id in texts for example in examples):
            raise ValueError(f"{path}: has no prediction for any of the {len(examples)} questions.")
        return [SquadAnswer(texts.get(example.id)) for example in examples]


@dataclass(frozen=True)
class Squad2Task(Squad1Task):
    """Questions that may have no answer in their context, as of SQuAD 2.0.

    Args:
        null_threshold: there is no answer where the score of [CLS] exceeds that of the best span by more than this;
            found on the development set.
    """

    name: ClassVar[str] = "squad2"
    may_be_impossible: ClassVar[bool] = True

    null_threshold: float = 0.0

    @property
    def threshold(self) -> float:
        """Of null odds, above which there is no answer."""
        return self.null_threshold

    def validate_examples(self, examples: Sequence[SquadExample], path: Path) -> None:
        """Raises ValueError where no question has an answer; warns where all have one, as in SQuAD 1.1."""
        super().validate_examples(examples, path)
        if not any(example.answers for example in examples):
            raise ValueError(f"{path}: at least one question must have an answer. Received: {len(examples)} without")
        if all(example.answers for example in examples):
            logger.warning("%s: every question has an answer; squad2 does not learn from it when there is none", path)

    def calibrate(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> Self:
        """Returns the task with the threshold of the best F1, as evaluate-v2.0.py finds it.

        It lies in the middle between the null odds of the last answer that is kept and the first that is not, so that
        another order of additions in the model does not change what is answered.
        """
        texts = [answer.best.text if answer.best else "" for answer in answers]
        odds = {example.id: answer.null_odds or 0.0 for example, answer in zip(examples, answers, strict=True)}
        found = best_threshold(
            list(odds),
            [self.points(example, text).f1 for example, text in zip(examples, texts, strict=True)],
            [bool(example.answers) for example in examples],
            [not text for text in texts],
            odds,
        )
        if not found.keeps_any:
            return replace(self, null_threshold=min(odds.values()) - 1.0)
        above = min((value for value in odds.values() if value > found.threshold), default=found.threshold + 2.0)
        return replace(self, null_threshold=(found.threshold + above) / 2)

    def points(self, example: SquadExample, predicted: str) -> Points:
        """Returns what an answer earns."""
        return points_v2([gold.text for gold in example.answers], predicted)

    def score(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
        """Returns the figures of evaluate-v2.0.py by its names, in percent; the best ones where there are null odds."""
        odds = {e.id: a.null_odds for e, a in zip(examples, answers, strict=True) if a.null_odds is not None}
        return self.score_with(examples, answers, odds if len(odds) == len(examples) else None)

    def score_with(
        self,
        examples: Sequence[SquadExample],
        answers: Sequence[SquadAnswer],
        null_odds: Mapping[str, float] | None,
        null_threshold: float = float("inf"),
    ) -> dict[str, float]:
        """Returns the figures of evaluate-v2.0.py; arguments as of `squad_metric.figures_v2`."""
        figures = figures_v2(
            [example.id for example in examples],
            self.all_points(examples, answers),
            [bool(example.answers) for example in examples],
            [answer.text == "" for answer in answers],
            null_odds,
            null_threshold,
        )
        return figures | missing(examples, answers)


def missing(examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
    """Returns `missing`, the number of questions without a prediction, with a warning; {} where there are none."""
    ids = [example.id for example, answer in zip(examples, answers, strict=True) if answer.text is None]
    if not ids:
        return {}
    shown = ", ".join(ids[:_SHOWN_IDS])
    logger.warning("%d of %d questions have no prediction and score 0, among them %s", len(ids), len(examples), shown)
    return {"missing": len(ids)}
