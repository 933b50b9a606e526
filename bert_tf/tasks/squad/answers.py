"""From the scores of tokens to answers: the best spans over all windows of a question, and whether there is none.

Shape legend: T tokens of all windows, P tokens of one context, L tokens of an answer at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.tasks.rows import Arrays
from bert_tf.tasks.squad.files import SquadExample
from bert_tf.tasks.squad.windows import ScoredTokens, Windows, scored_tokens

# Spans whose scores are in memory at once.
_MOST_SPANS = 1 << 22
# Spans to look at beyond the n best, in case that some have the same text.
_FURTHER = 8


class Candidate(NamedTuple):
    """One of the n best answers.

    Args:
        text: what stands in the context, unchanged; "" says that there is no answer.
        start: its first character in the context; -1 for "".
        probability: its share of the n best; for an ensemble the mean of those that the models give it.
        start_logit: score of its first token, for "" of [CLS] in the window least sure of there being none; None for an
            ensemble.
        end_logit: score of its last token.
    """

    text: str
    start: int
    probability: float
    start_logit: float | None = None
    end_logit: float | None = None


@dataclass(frozen=True)
class SquadAnswer:
    """The answer to a question.

    Args:
        text: what stands in the context; "" says that there is no answer; None where a file has no prediction.
        start: its first character in the context; -1 for "", and where a file does not say.
        candidates: the n best, the most probable first; () where a file does not say.
        null_odds: score of there being no answer less that of the best one, in logits; None where every question has
            an answer, and where a file does not say.
    """

    text: str | None
    start: int = -1
    candidates: tuple[Candidate, ...] = ()
    null_odds: float | None = None

    @property
    def best(self) -> Candidate | None:
        """The most probable answer that is one; None where there is none to choose."""
        return next((candidate for candidate in self.candidates if candidate.text), None)


def find_answers(
    examples: Sequence[SquadExample],
    windows: Windows,
    outputs: Arrays,
    max_answer_length: int,
    n_best: int,
    may_be_impossible: bool,
    null_threshold: float,
) -> Iterator[SquadAnswer]:
    """Yields the answer to each question.

    Of all spans of a context that lie in one window and start where that token has the most context, the n best of
    different texts are kept; probabilities are the softmax over them (as in run_squad.py, which looks at the n best
    starts and ends only).

    Args:
        examples: the questions.
        windows: theirs.
        outputs: `start_logits` and `end_logits`, float (T,).
        max_answer_length: L.
        n_best: how many.
        may_be_impossible: whether "" is one of the candidates, scored by [CLS].
        null_threshold: of null odds, above which the answer is "".
    """
    starts, ends = (outputs[name].astype(np.float64) for name in (START_LOGITS, END_LOGITS))
    scored = scored_tokens(windows, len(examples))
    rows = np.cumsum(np.bincount(windows.examples, minlength=len(examples)))
    for number, (example, row) in enumerate(zip(examples, rows, strict=True)):
        candidates = _distinct(example, windows, _Scores(scored, number, starts, ends, max_answer_length), n_best)
        odds = None
        if may_be_impossible:
            cls = windows.row_splits[rows[number - 1] if number else 0 : row]
            cls = cls[np.argmin(starts[cls] + ends[cls])]
            null = Candidate("", -1, 0.0, float(starts[cls]), float(ends[cls]))
            odds = _score(null) - (_score(candidates[0]) if candidates else 0.0)
            candidates = _kept(sorted([*candidates, null], key=_score, reverse=True), n_best)
        yield _decided(_weighed(candidates), odds, null_threshold)


def average(answers: Sequence[SquadAnswer], n_best: int, null_threshold: float) -> SquadAnswer:
    """Returns the answer of several models to one question.

    Args:
        answers: theirs.
        n_best: candidates of the answer at most, by the mean of the probabilities that the models give a text, which is
            0 where it is not among their n best.
        null_threshold: of the mean of their null odds, above which the answer is "".
    """
    found: dict[str, Candidate] = {}
    for answer in answers:
        for candidate in answer.candidates:
            seen = found.get(candidate.text, Candidate(candidate.text, candidate.start, 0.0))
            share = seen.probability + candidate.probability / len(answers)
            found[candidate.text] = seen._replace(probability=share)
    ranked = sorted(found.values(), key=lambda candidate: candidate.probability, reverse=True)
    odds = [answer.null_odds for answer in answers if answer.null_odds is not None]
    return _decided(_kept(ranked, n_best), sum(odds) / len(odds) if odds else None, null_threshold)


class _Scores:
    """The scores of all spans of one context.

    Args:
        scored: of all questions.
        question: its number.
        starts: float64 (T,).
        ends: float64 (T,).
        longest: L.
    """

    def __init__(self, scored: ScoredTokens, question: int, starts: np.ndarray, ends: np.ndarray, longest: int) -> None:
        part = slice(scored.splits[question], scored.splits[question + 1])
        self._places, self._limits = scored.places[part], scored.ends[part]
        self.origin = int(scored.origins[question])
        self._starts, self._ends = starts, ends
        # No span is longer than what windows hold.
        self._longest = min(longest, int((self._limits - self._places).max(initial=1)))

    def best(self, count: int) -> tuple[list[int], list[int], list[float], list[float]]:
        """Returns the `count` best spans, the best first; of equal ones the first in the context, then the shortest.

        Returns:
            Their first and last tokens, counted from the first of the context, and the scores of both.
        """
        scores, numbers = np.zeros(0), np.zeros(0, np.int64)
        step = max(1, _MOST_SPANS // self._longest)
        for begin in range(0, len(self._places), step):
            part = self._of_starts(slice(begin, begin + step)).ravel()
            of_part = begin * self._longest + np.arange(part.size)
            scores, numbers = _largest(np.concatenate([scores, part]), np.concatenate([numbers, of_part]), count)
        first, further = np.divmod(numbers[np.argsort(-scores, kind="stable")], self._longest)
        places = self._places[first]
        starts, ends = self._starts[places], self._ends[places + further]
        return first.tolist(), (first + further).tolist(), starts.tolist(), ends.tolist()

    def _of_starts(self, part: slice) -> np.ndarray:
        """Returns the scores of spans that start at some tokens, float64 (P, L); what is no span has -inf."""
        ends = self._places[part, None] + np.arange(self._longest)
        inside = ends < self._limits[part, None]
        ends = np.minimum(ends, len(self._ends) - 1)
        return np.where(inside, self._starts[self._places[part], None] + self._ends[ends], -np.inf)


def _largest(scores: np.ndarray, numbers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `count` largest finite scores, of equal ones the first, with their numbers, in the same order."""
    least = -np.inf
    if len(scores) > count:
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
    larger = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: count - len(larger)] if least > -np.inf else larger[:0]
    kept = np.sort(np.concatenate([larger, equal]))
    return scores[kept], numbers[kept]


def _distinct(example: SquadExample, windows: Windows, scores: _Scores, n_best: int) -> list[Candidate]:
    """Returns the n best answers of different texts, the best first; probabilities are still to come."""
    looked_at = n_best + _FURTHER
    while True:
        first, last, *logits = scores.best(looked_at)
        begins = windows.starts[scores.origin :][first].tolist()
        ends = windows.limits[scores.origin :][last].tolist()
        found: dict[str, Candidate] = {}
        for begin, end, start_logit, end_logit in zip(begins, ends, *logits, strict=True):
            text = example.context[begin:end]
            if text not in found:
                found[text] = Candidate(text, begin, 0.0, start_logit, end_logit)
                if len(found) == n_best:
                    return list(found.values())
        if len(first) < looked_at:
            return list(found.values())
        looked_at *= 8


def _kept(ranked: list[Candidate], n_best: int) -> list[Candidate]:
    """Returns the n best, and after them the best text and "" where these are not among them."""
    texts = {next((c.text for c in ranked if c.text), ""), ""}
    return ranked[:n_best] + [candidate for candidate in ranked[n_best:] if candidate.text in texts]


def _weighed(candidates: list[Candidate]) -> list[Candidate]:
    """Returns the candidates, the best of which is the first, with the softmax of their scores."""
    scores = [_score(candidate) for candidate in candidates]
    exponentials = [math.exp(score - scores[0]) for score in scores]
    total = sum(exponentials)
    return [Candidate(*c[:2], share / total, *c[3:]) for c, share in zip(candidates, exponentials, strict=True)]


def _decided(candidates: list[Candidate], null_odds: float | None, null_threshold: float) -> SquadAnswer:
    """Returns the best text, or "" where the null odds are above the threshold."""
    answer = SquadAnswer("", -1, tuple(candidates), null_odds)
    best = answer.best
    if best is None or (null_odds is not None and null_odds > null_threshold):
        return answer
    return replace(answer, text=best.text, start=best.start)


def _score(candidate: Candidate) -> float:
    """Returns the sum of both logits of a candidate that has them."""
    return (candidate.start_logit or 0.0) + (candidate.end_logit or 0.0)
