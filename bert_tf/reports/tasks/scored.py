"""Scored predictions: predictions with their gold labels, as the HTML pages show them.

Each task returns its predictions in one of these forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScoredLabel:
    """A label for one or more texts, each with a name, for example `("premise", "A man ...")`.

    `place` is the example's id, or file and line. Probabilities are in the order of `ScoredLabels.labels`.
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

    `place` is the example's id, or file and line; `heading` is the question, or empty for other tasks. For a question,
    each gold span is a correct answer, and the prediction () is that it has no answer.
    """

    place: str
    heading: str
    text: str
    gold: tuple[Span, ...]
    predicted: tuple[Span, ...]
    right: float


Scored = ScoredLabels | ScoredNumbers | Sequence[ScoredSpans]
