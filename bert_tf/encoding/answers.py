"""Head of answers: the best spans over all windows of a question, or no answer, from token scores.

`GraphSpans` and its relatives are the twins in the graph of an export.

Shape legend: T tokens of all windows, P tokens of one context, L maximum tokens of an answer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.encoding.heads import Head
from bert_tf.encoding.predictions import AnswerPrediction, CandidatePrediction
from bert_tf.encoding.rows import Arrays, EncodedRows
from bert_tf.encoding.span_metric import best_threshold, points_v2
from bert_tf.encoding.spans import ScoredTokens, SquadExample, Windows, make_windows, scored_tokens
from bert_tf.text import columns
from bert_tf.text.tokenizer import TextTokenizer

# Spans whose scores are held in memory at once.
_MOST_SPANS = 1 << 22
# Spans to examine beyond the n best, because some may have the same text; a graph then examines eight times as many,
# repeatedly. A context that repeats one word has too few distinct answers among any number of spans, hence its limit.
_FURTHER, _GROWTH, _MOST_LOOKED_AT = 8, 8, 1 << 15
# [CLS], two [SEP] and a token of the context.
LEAST_BESIDE_QUERY = 4
# Names of the texts of an example.
TEXT_NAMES = ("question", "context")
logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """One of the n best answers: the unchanged text of the span and its first character; "" and -1 for no answer.

    `probability` is that among the n best; for an ensemble, the mean over the models. Logits are those of the first and
    last token; for "", of [CLS] in the window with its lowest score; None for an ensemble.
    """

    text: str
    start: int
    probability: float
    start_logit: float | None = None
    end_logit: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns text, probability, offset in the context, and logits if there are any, as JSON values."""
        logits = {"start_logit": self.start_logit, "end_logit": self.end_logit}
        values = {"text": self.text, "probability": self.probability, "answer_start": self.start}
        return values if self.start_logit is None else values | logits

    def prediction(self) -> CandidatePrediction:
        """Returns text, position in the context and probability."""
        end = self.start + len(self.text) if self.text else -1
        return {"answer": self.text, "start": self.start, "end": end, "probability": self.probability}


@dataclass(frozen=True)
class SquadAnswer:
    """The answer to a question; `text` is "" for no answer, and None if a file has no prediction.

    `start` is the first character in the context, or -1 for "". `candidates` are the n best, most probable first.
    `null_odds` is the score of no answer minus the score of the best answer, in logits; None if every question has an
    answer. Answers that were read from a file have only a text.
    """

    text: str | None
    start: int = -1
    candidates: tuple[Candidate, ...] = ()
    null_odds: float | None = None

    @property
    def best(self) -> Candidate | None:
        """The most probable candidate with a text; None if there is no such candidate."""
        return next((candidate for candidate in self.candidates if candidate.text), None)

    def prediction(self, top_k: int | None = None) -> AnswerPrediction:
        """Returns the answer as a dictionary, with the `top_k` best candidates unless that is None."""
        null = next((candidate for candidate in self.candidates if not candidate.text), Candidate("", -1, 0.0))
        chosen = self.best if self.text and self.best else null
        prediction: AnswerPrediction = {**chosen.prediction()}
        if self.null_odds is not None:
            prediction |= {"no_answer_probability": null.probability, "null_odds": self.null_odds}
        if top_k is not None:
            prediction["n_best"] = [candidate.prediction() for candidate in self.candidates[:top_k]]
        return prediction


@dataclass(frozen=True)
class SpanHead(Head[SquadExample, SquadAnswer]):
    """An answer in the context of each question.

    Windows of a context begin `doc_stride` tokens apart. Questions are truncated to `max_query_length` tokens, answers
    have at most `max_answer_length`. `n_best` answers are candidates for each question.
    """

    name: ClassVar[str] = "squad1"
    by_token: ClassVar[bool] = True
    max_sequence_length: ClassVar[int] = 384
    may_be_impossible: ClassVar[bool] = False
    """True if questions without an answer are allowed."""

    doc_stride: int = 128
    max_query_length: int = 64
    max_answer_length: int = 30
    n_best: int = 20

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {getattr(self, name)}")

    @property
    def threshold(self) -> float:
        """Threshold of the null odds; above it there is no answer."""
        return float("inf")

    def encode(
        self, examples: Sequence[SquadExample], tokenizer: TextTokenizer, length: int, labelled: bool = True
    ) -> EncodedRows:
        """Encodes the windows of each question. Raises ValueError if rows of `length` have no room for a context."""
        if length < self.max_query_length + LEAST_BESIDE_QUERY:
            raise ValueError(
                f"`max_sequence_length` must exceed `max_query_length` by at least {LEAST_BESIDE_QUERY}. "
                f"Received: {length} and {self.max_query_length}"
            )
        windows = make_windows(examples, tokenizer, length, self.doc_stride, self.max_query_length, labelled)
        disjoint = windows.held <= self.doc_stride
        if (disjoint[:-1] & (windows.examples[:-1] == windows.examples[1:])).any():
            logger.warning(
                "`doc_stride` of %d leaves windows of some contexts without overlap: answers across them are lost",
                self.doc_stride,
            )
        return windows

    def answers(self, examples: Sequence[SquadExample], rows: EncodedRows, outputs: Arrays) -> list[SquadAnswer]:
        """Returns the best span for each question, the n best ones, and the null odds if there may be no answer."""
        if not isinstance(rows, Windows):
            raise TypeError(f"`rows` must be `Windows`, as returned by `encode`. Received: {type(rows).__name__}")
        threshold = self.threshold if self.may_be_impossible else None
        return list(find_answers(examples, rows, outputs, self.max_answer_length, self.n_best, threshold))

    def examples_of(self, x: Any) -> list[SquadExample]:
        """Returns questions and contexts as examples."""
        rows = columns.rows_of(x, TEXT_NAMES)
        return [
            SquadExample(f"row {number}", str(number), question, context)
            for number, (question, context) in enumerate(rows)
        ]

    def predictions(
        self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer], top_k: int | None = None
    ) -> list[AnswerPrediction]:
        """Returns the answers; with `top_k`, also the best ones of the task's `n_best`."""
        return [answer.prediction(top_k) for answer in answers]


@dataclass(frozen=True)
class NullableSpanHead(SpanHead):
    """An answer in the context of each question, or none.

    There is no answer if the score of [CLS] exceeds that of the best span by more than `null_threshold`, which is tuned
    on the development set.
    """

    name: ClassVar[str] = "squad2"
    may_be_impossible: ClassVar[bool] = True

    null_threshold: float = 0.0

    @property
    def threshold(self) -> float:
        """Threshold of the null odds; above it there is no answer."""
        return self.null_threshold

    def calibrate(self, examples: Sequence[SquadExample], answers: Sequence[SquadAnswer]) -> Self:
        """Returns the head with the threshold of the best F1, as in evaluate-v2.0.py.

        The threshold is halfway between the null odds of the last answer that is kept and the first that is not, so
        that rounding differences in the model do not change the answers.
        """
        texts = [answer.best.text if answer.best else "" for answer in answers]
        golds = ([gold.text for gold in example.answers] for example in examples)
        odds = {example.id: answer.null_odds or 0.0 for example, answer in zip(examples, answers, strict=True)}
        best = best_threshold(
            list(odds),
            [points_v2(gold, text).f1 for gold, text in zip(golds, texts, strict=True)],
            [bool(example.answers) for example in examples],
            [not text for text in texts],
            odds,
        )
        if not best.keeps_any:
            return replace(self, null_threshold=min(odds.values()) - 1.0)
        above = min((value for value in odds.values() if value > best.threshold), default=best.threshold + 2.0)
        return replace(self, null_threshold=(best.threshold + above) / 2)


def find_answers(
    examples: Sequence[SquadExample],
    windows: Windows,
    outputs: Arrays,
    max_answer_length: int,
    n_best: int,
    null_threshold: float | None,
) -> Iterator[SquadAnswer]:
    """Yields the answer to each question, by `start_logits` and `end_logits`, float (T,), in `outputs`.

    Candidates are all spans of at most `max_answer_length` tokens that lie in one window, where the first token has its
    maximum context. The n best with different texts are kept; their probabilities are the softmax over these.
    (run_squad.py does the same, but only considers the n best starts and ends.) With a `null_threshold`, "" is a
    candidate, scored by [CLS], and the answer if the null odds exceed the threshold; None if every question has an
    answer.
    """
    starts, ends = (outputs[name].astype(np.float64) for name in (START_LOGITS, END_LOGITS))
    scored = scored_tokens(windows, len(examples))
    rows = np.cumsum(np.bincount(windows.examples, minlength=len(examples)))
    visible = windows.limits > windows.starts
    for number, (example, row) in enumerate(zip(examples, rows, strict=True)):
        scores = _Scores(scored, number, starts, ends, max_answer_length, visible)
        candidates = _distinct(example, windows, scores, n_best)
        odds = None
        if null_threshold is not None:
            cls = windows.row_splits[rows[number - 1] if number else 0 : row]
            cls = cls[np.argmin(starts[cls] + ends[cls])]
            null = Candidate("", -1, 0.0, float(starts[cls]), float(ends[cls]))
            odds = _score(null) - (_score(candidates[0]) if candidates else 0.0)
            candidates = _kept(sorted([*candidates, null], key=_score, reverse=True), n_best)
        yield _decided(_weighed(candidates), odds, null_threshold)


def average(answers: Sequence[SquadAnswer], n_best: int, null_threshold: float) -> SquadAnswer:
    """Returns the ensemble's answer to one question.

    Candidates are ranked by mean probability over the models, 0 for a text that is not among a model's n best. The
    answer is "" if the mean null odds exceed `null_threshold`.
    """
    by_text: dict[str, Candidate] = {}
    for answer in answers:
        for candidate in answer.candidates:
            total = by_text.get(candidate.text, Candidate(candidate.text, candidate.start, 0.0))
            probability = total.probability + candidate.probability / len(answers)
            by_text[candidate.text] = total._replace(probability=probability)
    ranked = sorted(by_text.values(), key=lambda candidate: candidate.probability, reverse=True)
    odds = [answer.null_odds for answer in answers if answer.null_odds is not None]
    return _decided(_kept(ranked, n_best), sum(odds) / len(odds) if odds else None, null_threshold)


class _Scores:
    """Scores of all spans of one context, by float64 logits `starts` and `ends`, (T,).

    `longest` is L. `visible`, bool, tells of the tokens of all contexts whether they have characters; spans neither
    start nor end at others.
    """

    def __init__(
        self,
        scored: ScoredTokens,
        question: int,
        starts: np.ndarray,
        ends: np.ndarray,
        longest: int,
        visible: np.ndarray,
    ) -> None:
        part = slice(scored.splits[question], scored.splits[question + 1])
        self._places, self._limits = scored.places[part], scored.ends[part]
        self.origin = int(scored.origins[question])
        self._starts, self._ends = starts, ends
        # No span is longer than a window.
        self._longest = min(longest, int((self._limits - self._places).max(initial=1)))
        # Spans may pass the end of the context, where they are invalid anyway.
        own = visible[self.origin : self.origin + len(self._places)]
        self._visible = np.concatenate([own, np.zeros(self._longest, np.bool_)])

    def best(self, count: int) -> tuple[list[int], list[int], list[float], list[float]]:
        """Returns first and last tokens of the `count` best spans, best first, and the scores of both.

        Tokens are counted from the context's first; ties are broken by position, then by length.
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
        """Returns the scores of spans that start at some tokens, float64 (P, L); invalid spans have -inf."""
        places = self._places[part, None]
        ends = places + np.arange(self._longest)
        numbers = np.arange(len(self._places))[part, None]
        inside = (ends < self._limits[part, None]) & self._visible[numbers]
        inside &= self._visible[numbers + np.arange(self._longest)]
        ends = np.minimum(ends, len(self._ends) - 1)
        return np.where(inside, self._starts[places] + self._ends[ends], -np.inf)


def _largest(scores: np.ndarray, numbers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `count` largest finite scores with their numbers, in the given order; of equal ones the first."""
    least = -np.inf
    if len(scores) > count:
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
    larger = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: count - len(larger)] if least > -np.inf else larger[:0]
    kept = np.sort(np.concatenate([larger, equal]))
    return scores[kept], numbers[kept]


def _distinct(example: SquadExample, windows: Windows, scores: _Scores, n_best: int) -> list[Candidate]:
    """Returns the n best answers with different texts, best first, with probability 0."""
    count = n_best + _FURTHER
    while True:
        first, last, *logits = scores.best(count)
        begins = windows.starts[scores.origin :][first].tolist()
        ends = windows.limits[scores.origin :][last].tolist()
        by_text: dict[str, Candidate] = {}
        for begin, end, start_logit, end_logit in zip(begins, ends, *logits, strict=True):
            text = example.context[begin:end]
            if text not in by_text:
                by_text[text] = Candidate(text, begin, 0.0, start_logit, end_logit)
                if len(by_text) == n_best:
                    return list(by_text.values())
        if len(first) < count:
            return list(by_text.values())
        count *= 8


def _kept(ranked: list[Candidate], n_best: int) -> list[Candidate]:
    """Returns the n best candidates, plus the best text and "" if these are not among them."""
    texts = {next((c.text for c in ranked if c.text), ""), ""}
    return ranked[:n_best] + [candidate for candidate in ranked[n_best:] if candidate.text in texts]


def _weighed(candidates: list[Candidate]) -> list[Candidate]:
    """Returns the candidates, sorted best first, with the softmax of their scores as probabilities."""
    scores = [_score(candidate) for candidate in candidates]
    exponentials = [math.exp(score - scores[0]) for score in scores]
    total = sum(exponentials)
    return [Candidate(*c[:2], share / total, *c[3:]) for c, share in zip(candidates, exponentials, strict=True)]


def _decided(candidates: list[Candidate], null_odds: float | None, null_threshold: float | None) -> SquadAnswer:
    """Returns the best text as answer, or "" if the null odds exceed the threshold; either is None for squad1."""
    answer = SquadAnswer("", -1, tuple(candidates), null_odds)
    best = answer.best
    if best is None or (null_odds is not None and null_threshold is not None and null_odds > null_threshold):
        return answer
    return replace(answer, text=best.text, start=best.start)


def _score(candidate: Candidate) -> float:
    """Returns the sum of a candidate's start and end logits."""
    return (candidate.start_logit or 0.0) + (candidate.end_logit or 0.0)


class GraphSpans(NamedTuple):
    """The spans of one context and their scores."""

    scores: tf.Tensor  # float64 (P x L), by first token and then by length; -inf for invalid spans
    starts: tf.Tensor  # int32 (P,), first character of each token
    limits: tf.Tensor  # int32 (P,), character after the last of each token
    longest: int  # L
    text: tf.Tensor  # the context, a scalar
    offsets: tf.Tensor  # int32 (characters + 1,), byte offset of each character, then the number of bytes


class GraphAnswers(NamedTuple):
    """Answers with distinct texts, the best first; all arrays have at most K elements."""

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


def span_scores(logits: tf.Tensor, rows: tf.Tensor, places: tf.Tensor, limits: tf.Tensor, longest: int) -> tf.Tensor:
    """Returns the scores of the spans of one context, float64 (P x L)."""
    ends = places[:, tf.newaxis] + tf.range(longest, dtype=tf.int64)
    inside = ends < limits[:, tf.newaxis]
    of_rows = tf.broadcast_to(rows[:, tf.newaxis], tf.shape(ends))
    places_of_ends = tf.stack([of_rows, tf.minimum(ends, limits[:, tf.newaxis] - 1)], axis=-1)
    starts = tf.gather_nd(logits[..., 0], tf.stack([rows, places], axis=-1))
    scores = starts[:, tf.newaxis] + tf.gather_nd(logits[..., 1], places_of_ends)
    return tf.reshape(tf.where(inside, scores, tf.constant(float("-inf"), tf.float64)), [-1])


def distinct_in_graph(spans: GraphSpans, n_best: int) -> GraphAnswers:
    """Returns the n best answers with distinct texts, the best first; ties go to the earliest, then the shortest."""
    count = tf.reduce_sum(tf.cast(tf.math.is_finite(spans.scores), tf.int32))

    def look(looked_at: tf.Tensor) -> tuple[tf.Tensor, ...]:
        scores, numbers = tf.math.top_k(spans.scores, tf.minimum(looked_at, count))
        first = numbers // spans.longest
        starts = tf.gather(spans.starts, first)
        ends = tf.gather(spans.limits, first + numbers % spans.longest)
        begins = tf.gather(spans.offsets, starts)
        texts = tf.strings.substr(spans.text, begins, tf.gather(spans.offsets, ends) - begins)
        different, group = tf.unique(texts)
        at = tf.math.unsorted_segment_min(tf.range(tf.size(group)), group, tf.size(different))[:n_best]
        return different[:n_best], *(tf.gather(each, at) for each in (starts, ends, scores))

    def goes_on(looked_at: tf.Tensor, texts: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
        return (tf.size(texts) < n_best) & (looked_at < tf.minimum(count, _MOST_LOOKED_AT))

    def further(looked_at: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return looked_at * _GROWTH, *look(looked_at * _GROWTH)

    looked_at = tf.constant(n_best + _FURTHER)
    invariants = (tf.TensorShape([]), *[tf.TensorShape([None])] * 4)
    state = (looked_at, *look(looked_at))
    return GraphAnswers(*tf.while_loop(goes_on, further, state, shape_invariants=invariants)[1:])


def with_null(answers: GraphAnswers, score: tf.Tensor, n_best: int) -> GraphAnswers:
    """Inserts "" among the answers and keeps the n best; appends the best text or "" if it is not among them."""
    before = tf.reduce_sum(tf.cast(answers.scores >= score, tf.int32))
    null = {"texts": "", "starts": -1, "ends": -1, "scores": score}
    ranked = {
        name: tf.concat([values[:before], [null[name]], values[before:]], 0)
        for name, values in answers._asdict().items()
    }
    number = tf.range(tf.size(ranked["texts"]))
    # The best text is the first or the second.
    kept = (number < n_best) | (number == before) | (number == tf.cast(before == 0, tf.int32))
    return GraphAnswers(**{name: tf.boolean_mask(values, kept) for name, values in ranked.items()})
