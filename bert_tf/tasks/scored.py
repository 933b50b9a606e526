"""Answers beside what was right, as the pages show them; every task says its answers in one of these forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class JudgedLabel:
    """One label for one or more texts.

    Args:
        place: what names the example: its id, or file and line.
        texts: what was read, each with a name, for example `("premise", "A man ...")`.
        gold: the right label.
        probabilities: of every label, in the order of `JudgedLabels.labels`.
    """

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class JudgedLabels:
    """Answers of a classification or a choice."""

    labels: tuple[str, ...]
    rows: Sequence[JudgedLabel]


@dataclass(frozen=True)
class JudgedNumber:
    """One number for one or more texts; fields as of `JudgedLabel`."""

    place: str
    texts: tuple[tuple[str, str], ...]
    gold: float
    predicted: float


@dataclass(frozen=True)
class JudgedNumbers:
    """Answers of a regression."""

    rows: Sequence[JudgedNumber]


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (not included) of a text, with what they are called."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class JudgedSpans:
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


Judged = JudgedLabels | JudgedNumbers | Sequence[JudgedSpans]
