"""Scored predictions: predictions with their gold labels, as the HTML pages show them.

Each task returns its predictions in one of these forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScoredLabel:
    """A label for one or more texts.

    Args:
        place: the example's id, or file and line.
        texts: the input texts, each with a name, for example `("premise", "A man ...")`.
        probabilities: probability of each label, in the order of `ScoredLabels.labels`.
    """

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ScoredLabels:
    """Scored predictions of classification or multiple choice."""

    labels: tuple[str, ...]
    rows: Sequence[ScoredLabel]


@dataclass(frozen=True)
class ScoredNumber:
    """A number for one or more texts; the fields match those of `ScoredLabel`."""

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: float
    predicted: float


@dataclass(frozen=True)
class ScoredNumbers:
    """Scored predictions of regression."""

    rows: Sequence[ScoredNumber]


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of a text, with a label."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class ScoredSpans:
    """Predicted and gold spans of one text, with a score of the prediction (`right`) in [0, 1].

    Args:
        place: the example's id, or file and line.
        heading: the question; empty for other tasks.
        gold: the gold spans; for a question, each of them is a correct answer.
        predicted: the predicted spans; () for a question predicts that it has no answer.
    """

    place: str
    heading: str
    text: str
    gold: tuple[Span, ...]
    predicted: tuple[Span, ...]
    right: float


Scored = ScoredLabels | ScoredNumbers | Sequence[ScoredSpans]
