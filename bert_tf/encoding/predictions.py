"""Predictions for texts, as dictionaries of JSON values with the names of the outputs of exported models."""

from __future__ import annotations

from typing import TypedDict

from bert_tf.config import ConfigError


class LabelPrediction(TypedDict):
    """Prediction of a text classifier: the most probable label, and the probability of each label by name."""

    label: str
    probabilities: dict[str, float]


class NumberPrediction(TypedDict):
    """Prediction of a regression model."""

    number: float


class EntityPrediction(TypedDict):
    """An entity: its text, type, first character and end (exclusive).

    `score` is the mean probability of the classes of its words.
    """

    entity: str
    type: str
    start: int
    end: int
    score: float


class WordsPrediction(TypedDict):
    """Prediction for a sentence: the entities, and the words with their tags.

    Positions of entities are in the text; for a list of words, in the words joined by single spaces.
    """

    entities: list[EntityPrediction]
    words: list[str]
    tags: list[str]


class CandidatePrediction(TypedDict):
    """One of the best answers to a question; `answer` "" with start and end -1 means no answer."""

    answer: str
    start: int
    end: int
    probability: float


class AnswerPrediction(CandidatePrediction, total=False):
    """The answer to a question: its text, first character and end (exclusive) in the context, and probability.

    `no_answer_probability` and `null_odds`, the score of no answer minus that of the best answer, exist if questions
    may have no answer. `n_best` exists if `top_k` is set, most probable first. Probabilities are among the n best
    answers of the task.
    """

    no_answer_probability: float
    null_odds: float
    n_best: list[CandidatePrediction]


class ChoicePrediction(TypedDict):
    """The number of the most probable choice, from 0, and the probability of each choice."""

    choice: int
    probabilities: list[float]


def check_unranked(task: str, top_k: int | None) -> None:
    """Raises ConfigError for `top_k` and a task without ranked predictions."""
    if top_k is not None:
        raise ConfigError(
            f"`top_k` is for labels of texts and for answers to questions. Received: {top_k} for `{task}`"
        )
