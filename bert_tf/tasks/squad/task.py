"""Tasks `squad1` and `squad2`: extractive question answering (arXiv 1810.04805, 4.2 and 4.3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import keras

from bert_tf.encoding.answers import NullableSpanHead, SpanHead, SquadAnswer, average
from bert_tf.encoding.span_metric import Points, metrics_v1, metrics_v2, points_v1, points_v2
from bert_tf.encoding.spans import SquadExample
from bert_tf.models import BertBackbone, BertSpanPredictor
from bert_tf.reports.tasks.scored import Scored, ScoredSpans, Span
from bert_tf.tasks.base import Task, pairs_of
from bert_tf.tasks.example_scores import ExampleScores, mean_scores
from bert_tf.tasks.input_errors import InputErrors
from bert_tf.tasks.json_files import read_json_object
from bert_tf.tasks.squad.files import json_object_writer, read_squad
from bert_tf.training.losses import SPANS, Objective

logger = logging.getLogger(__name__)
_SHOWN_IDS = 5


@dataclass(frozen=True)
class Squad1Task(SpanHead, Task[SquadExample, SquadAnswer]):
    """Questions that have an answer, as in SQuAD 1.1."""

    metric: ClassVar[str] = "f1"
    predictions_name: ClassVar[str] = "predictions.json"
    needs_pooler: ClassVar[bool] = False
    head: ClassVar[str] = "question_answering"
    objective: ClassVar[Objective] = SPANS

    def read(self, path: Path, input_errors: InputErrors, labelled: bool = True) -> Iterator[SquadExample]:
        """Reads questions; an answer that is not in its context at its offset is an input error."""
        return read_squad(path, input_errors, labelled, self.may_be_impossible)

    def serving_inputs(self, example: SquadExample) -> dict[str, Any]:
        """Returns `question` and `context`."""
        return {"question": example.question, "context": example.context}

    def build(self, backbone: BertBackbone) -> keras.Model:
        """Returns a model that predicts start and end of answers."""
        return BertSpanPredictor(backbone)

    def averaged(self, tasks: Sequence[Self], answers: Sequence[Sequence[SquadAnswer]]) -> list[SquadAnswer]:
        """Returns the text with the largest mean probability over all models; "" by mean null odds and threshold."""
        threshold = sum(task.threshold for task in (self, *tasks)) / (1 + len(tasks))
        return [average(of_models, self.n_best, threshold) for of_models in zip(*answers, strict=True)]

    def points(self, example: SquadExample, predicted: str) -> Points:
        """Returns the points of an answer."""
        return points_v1([gold.text for gold in example.answers], predicted)

    def all_points(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> list[Points | None]:
        """Returns the points of each answer; None if it is missing."""
        pairs = zip(examples, (answer.text for answer in answers), strict=True)
        return [None if text is None else self.points(example, text) for example, text in pairs]

    def score(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
        """Returns `exact` and `f1` of evaluate-v1.1.py, in percent, and `missing` if predictions are missing."""
        return metrics_v1(self.all_points(examples, answers)) | missing(examples, answers)

    def example_scores(
        self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]
    ) -> dict[str, ExampleScores]:
        """Returns the points of each question; 0 without a prediction."""
        points = [Points(0.0, 0.0) if point is None else point for point in self.all_points(examples, answers)]
        return {name: mean_scores([100 * getattr(point, name) for point in points]) for name in ("exact", "f1")}

    def score_details(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> Scored:
        """Returns predicted and gold spans of the contexts; `right` is the F1."""
        return [self._scored(example, answer) for example, answer in zip(examples, answers, strict=True)]

    def _scored(self, example: SquadExample, answer: SquadAnswer) -> ScoredSpans:
        text = answer.text or ""
        # Files of predictions have no offsets; a text that is not in the context becomes an empty span.
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
        """Writes a JSON object of texts by id, a file of the n best answers and, for squad2, a file of null odds.

        For `predictions.json`, the additional files are `predictions.nbest.json` and `predictions.null_odds.json`.
        """
        with ExitStack() as stack:
            names = (path.name, f"{path.stem}.nbest.json", f"{path.stem}.null_odds.json")
            kept = names if self.may_be_impossible else names[:2]
            text, candidates, *odds = (stack.enter_context(json_object_writer(path.with_name(name))) for name in kept)
            for example, answer in pairs_of(answers):
                text(example.id, answer.text)
                candidates(example.id, [candidate.as_json() for candidate in answer.candidates])
                for add in odds:
                    add(example.id, answer.null_odds)

    def read_answers(self, path: Path, examples: Sequence[SquadExample]) -> list[SquadAnswer]:
        """Reads texts by id.

        As in the official scripts, a question without a prediction scores 0, and predictions for other questions are
        ignored. Raises ValueError for a duplicate id, a prediction that is not a string, and if no question has a
        prediction, with file and id.
        """
        texts = read_json_object(path)
        for example in examples:
            if not isinstance(texts.get(example.id, ""), str):
                raise ValueError(f"{path}: id {example.id}: must be a string. Received: {texts[example.id]!r}")
        if not any(example.id in texts for example in examples):
            raise ValueError(f"{path}: has no prediction for any of the {len(examples)} questions.")
        return [SquadAnswer(texts.get(example.id)) for example in examples]


@dataclass(frozen=True)
class Squad2Task(NullableSpanHead, Squad1Task):
    """Questions that may have no answer in their context, as in SQuAD 2.0."""

    def validate_examples(self, examples: Sequence[SquadExample], path: Path) -> None:
        """Raises ValueError if no question has an answer; warns if all have one, as in SQuAD 1.1."""
        super().validate_examples(examples, path)
        if not any(example.answers for example in examples):
            raise ValueError(f"{path}: at least one question must have an answer. Received: {len(examples)} without")
        if all(example.answers for example in examples):
            logger.warning("%s: every question has an answer; the model cannot learn to predict no answer", path)

    def points(self, example: SquadExample, predicted: str) -> Points:
        """Returns the points of an answer."""
        return points_v2([gold.text for gold in example.answers], predicted)

    def score(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
        """Returns the metrics of evaluate-v2.0.py, in percent; the best ones only if there are null odds."""
        odds = {e.id: a.null_odds for e, a in zip(examples, answers, strict=True) if a.null_odds is not None}
        return self.score_with(examples, answers, odds if len(odds) == len(examples) else None)

    def score_with(
        self,
        examples: Sequence[SquadExample],
        answers: Sequence[SquadAnswer],
        null_odds: Mapping[str, float] | None,
        null_threshold: float = float("inf"),
    ) -> dict[str, float]:
        """Returns the metrics of evaluate-v2.0.py (see `metrics_v2`); without the best ones if `null_odds` is None."""
        metrics = metrics_v2(
            [example.id for example in examples],
            self.all_points(examples, answers),
            [bool(example.answers) for example in examples],
            [answer.text == "" for answer in answers],
            null_odds,
            null_threshold,
        )
        return metrics | missing(examples, answers)


def missing(examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> dict[str, float]:
    """Returns `missing`, the number of questions without a prediction, and warns; {} if all have one."""
    ids = [example.id for example, answer in zip(examples, answers, strict=True) if answer.text is None]
    if not ids:
        return {}
    shown = ", ".join(ids[:_SHOWN_IDS])
    logger.warning("%d of %d questions have no prediction and score 0, among them %s", len(ids), len(examples), shown)
    return {"missing": len(ids)}
