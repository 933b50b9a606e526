"""Exact match and F1 of answers, as in the published evaluate-v1.1.py and evaluate-v2.0.py.

All metrics are in percent and match those scripts to the last digit: sums run in the order of the file.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ARTICLES = re.compile(r"\b(a|an|the)\b")
"""English articles, which the official scripts remove from answers."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Points:
    """Exact match and F1 of one answer, in [0, 1]."""

    exact: float
    f1: float


@dataclass(frozen=True)
class BestThreshold:
    """Best threshold of the null odds, above which a question has no answer, and the metric at this threshold.

    `threshold` is the largest null odds of an answer that is kept; 0 if none is, as in the official script.
    """

    percent: float
    threshold: float
    keeps_any: bool


def normalized(answer: str) -> str:
    """Normalizes an answer: lower case, no ASCII punctuation, no English articles, single spaces between words."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def points_v1(golds: Sequence[str], predicted: str) -> Points:
    """Returns the points of evaluate-v1.1.py for one or more gold answers."""
    pairs = [(normalized(gold), normalized(predicted)) for gold in golds]
    return Points(max(float(gold == answer) for gold, answer in pairs), max(word_f1(*pair) for pair in pairs))


def points_v2(golds: Sequence[str], predicted: str) -> Points:
    """Returns the points of evaluate-v2.0.py; without an answer, `golds` is () and `predicted` is ""."""
    wanted = [gold for gold in map(normalized, golds) if gold] or [""]
    answer = normalized(predicted)
    # If one side has no words, the other must have none.
    overlaps = [word_f1(gold, answer) if gold and answer else float(gold == answer) for gold in wanted]
    return Points(max(float(gold == answer) for gold in wanted), max(overlaps))


def metrics_v1(points: Sequence[Points | None]) -> dict[str, float]:
    """Returns `exact` and `f1` in percent; a question without a prediction has the points None, and scores 0."""
    return {name: 100.0 * sum(_value(point, name) for point in points) / len(points) for name in ("exact", "f1")}


def metrics_v2(
    ids: Sequence[str],
    points: Sequence[Points | None],
    has_answer: Sequence[bool],
    says_none: Sequence[bool],
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = float("inf"),
) -> dict[str, float]:
    """Returns the metrics of evaluate-v2.0.py by its names, in percent except for `total` and thresholds.

    Questions are in the order of the file. Points are None without a prediction, which scores 0 (the script stops
    instead). `says_none` is whether the prediction is "no answer". `null_odds` by id, in the order of their file, are
    larger in favour of no answer; they are required for `best_exact`, `best_f1` and their thresholds. Predictions with
    null odds above `null_threshold` count as no answer in `exact`, `f1` and their parts, but not in the best ones.
    Raises KeyError if `null_odds` lacks a question.
    """
    taken = list(points)
    if null_odds is not None:
        for number, (name, answerable) in enumerate(zip(ids, has_answer, strict=True)):
            if taken[number] is not None and null_odds[name] > null_threshold:
                taken[number] = Points(float(not answerable), float(not answerable))
    metrics: dict[str, float] = {**metrics_v1(taken), "total": len(taken)}
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        part = [point for point, answerable in zip(taken, has_answer, strict=True) if answerable == wanted]
        if part:
            metrics |= {f"{prefix}_{name}": value for name, value in {**metrics_v1(part), "total": len(part)}.items()}
    if null_odds is not None:
        for name in ("exact", "f1"):
            best = best_threshold(ids, [_value(point, name) for point in points], has_answer, says_none, null_odds)
            metrics |= {f"best_{name}": best.percent, f"best_{name}_thresh": best.threshold}
    return metrics


def best_threshold(
    ids: Sequence[str],
    values: Sequence[float],
    has_answer: Sequence[bool],
    says_none: Sequence[bool],
    null_odds: Mapping[str, float],
) -> BestThreshold:
    """Returns the threshold with the best metric, by adding answers one by one in the order of their null odds.

    `values`, in [0, 1], score the predictions. Ties keep the order of `null_odds`; other ids are ignored.
    """
    number_of = {name: number for number, name in enumerate(ids)}
    score = best = float(sum(not answerable for answerable in has_answer))
    threshold, keeps_any = 0.0, False
    for name in sorted(null_odds, key=lambda name: null_odds[name]):
        number = number_of.get(name)
        if number is None:
            continue
        if has_answer[number]:
            score += values[number]
        elif not says_none[number]:
            score -= 1
        if score > best:
            best, threshold, keeps_any = score, null_odds[name], True
    return BestThreshold(100.0 * best / len(ids), threshold, keeps_any)


def word_f1(gold: str, answer: str) -> float:
    """Returns the F1 of the words of two normalized answers."""
    gold_words, words = gold.split(), answer.split()
    shared = (Counter(words) & Counter(gold_words)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(words), shared / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def _value(point: Points | None, name: str) -> float:
    return 0.0 if point is None else float(getattr(point, name))
