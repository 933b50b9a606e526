"""Answers beside what was right, as the pages show them; every task says its answers in one of these forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScoredLabel:
    """One label for one or more texts.

    Args:
        place: what names the example: its id, or file and line.
        texts: what was read, each with a name, for example `("premise", "A man ...")`.
        gold: the right label.
        probabilities: of every label, in the order of `ScoredLabels.labels`.
    """

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ScoredLabels:
    """Answers of a classification or a choice."""

    labels: tuple[str, ...]
    rows: Sequence[ScoredLabel]


@dataclass(frozen=True)
class ScoredNumber:
    """One number for one or more texts; fields as of `ScoredLabel`."""

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: float
    predicted: float


@dataclass(frozen=True)
class ScoredNumbers:
    """Answers of a regression."""

    rows: Sequence[ScoredNumber]


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (not included) of a text, with what they are called."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class ScoredSpans:
    """Spans found in one text, beside those that are right.

    Args:
        place: what names the example: its id, or file and line.
        heading: the question; empty where there is none.
        text: what the spans are of.
        gold: the right spans; several of one question are each right.
        predicted: those found; none for a question means: there is no answer.
        right: share of it that counts as right, in [0, 1].
    """

    place: str
    heading: str
    text: str
    gold: tuple[Span, ...]
    predicted: tuple[Span, ...]
    right: float


Scored = ScoredLabels | ScoredNumbers | Sequence[ScoredSpans]
