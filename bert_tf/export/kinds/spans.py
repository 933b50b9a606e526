"""Signatures of span predictors: answers to questions with text and position in the context.

Shape legend: B questions, N windows, S sequence, P tokens of a context, L maximum tokens of an answer, K answers.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.encoding import spans
from bert_tf.encoding.answers import (
    LEAST_BESIDE_QUERY,
    GraphAnswers,
    GraphSpans,
    SpanHead,
    distinct_in_graph,
    span_scores,
    with_null,
)
from bert_tf.encoding.graph import ROWS_AT_ONCE, Outputs, checked_row_count, in_parts
from bert_tf.export.checks import checked_texts
from bert_tf.export.kinds import span_ties
from bert_tf.export.kinds.base import Signatures, python_values, task_field
from bert_tf.export.verify.comparison import Tensors
from bert_tf.models import Preset

QUESTION, CONTEXT = "question", "context"
_PLURALS = {"answer": "answers", "start": "starts", "end": "ends", "probability": "probabilities"}


class SpanSignatures(Signatures):
    """`serving_default`: question and context [B] -> the best answer and the n best answers, as in `predict`.

    | output | |
    |---|---|
    | answer | string [B], text of the answer in the context; "" for no answer |
    | start, end | int32 [B], first character and one past the last; -1 for "" |
    | probability | float32 [B], probability among the n best |
    | null_odds | float32 [B], score of no answer minus the best score; only for tasks with unanswerable questions |
    | n_best_answers, n_best_starts, ... | the n best, [B, K], the most probable first; padding has probability 0 |

    Characters are code points; bytes that are not valid UTF-8 count as U+FFFD.

    Raises:
        ConfigError: if rows have no room for a context, or a number in task.json is not a positive integer.
    """

    task_length = SpanHead.max_sequence_length
    texts = (QUESTION, CONTEXT)
    by_token = logits = (START_LOGITS, END_LOGITS)
    probabilities = ("probability", "n_best_probabilities")
    logits_of_score = 2
    score_differences = ("null_odds",)

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        super().__init__(preset, max_sequence_length)
        task = preset.task or {}
        self._stride = task_field(preset, "doc_stride", 128)
        self._longest = task_field(preset, "max_answer_length", 30)
        self._n_best = task_field(preset, "n_best", 20)
        self._query = task_field(preset, "max_query_length", 64)
        if self.max_sequence_length < self._query + LEAST_BESIDE_QUERY:
            raise ConfigError(
                f"`max_sequence_length` must exceed the task's `max_query_length` by {LEAST_BESIDE_QUERY} at least. "
                f"Received: {self.max_sequence_length} and {self._query}"
            )
        self._may_be_impossible = task.get("task") == "squad2"
        self._threshold = float(task.get("null_threshold", 0.0)) if self._may_be_impossible else float("inf")

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the answers."""
        question, context = checked_texts(dict(zip(self.texts, inputs, strict=True)))
        # Replaces invalid bytes, so that all operations count characters alike.
        context = tf.strings.unicode_transcode(context, "UTF-8", "UTF-8")
        queries = self.tokenizer.ids(question)[:, : self._query]
        contexts = self.tokenizer.pieces(context)
        sizes = queries.row_lengths(), contexts.ids.row_lengths()
        counts = spans.window_counts(*sizes, self.max_sequence_length, self._stride)
        with tf.control_dependencies([checked_row_count(tf.cast(tf.reduce_sum(counts), tf.int32), CONTEXT)]):
            windows = spans.cut_in_graph(tf.identity(counts), *sizes, self.max_sequence_length, self._stride)
        rows = spans.rows_in_graph(windows, queries, contexts, self.vocabulary, self.max_sequence_length)
        logits = tf.cast(in_parts(self._logits, rows, 3, ROWS_AT_ONCE), tf.float64)
        scored = spans.scored_in_graph(windows, *sizes)
        first_rows = tf.cumsum(counts, exclusive=True)
        splits = contexts.ids.row_splits
        offsets = tf.strings.unicode_decode_with_offsets(context, "UTF-8")[1]
        offsets = tf.cast(
            tf.concat([offsets, tf.cast(tf.strings.length(context), tf.int64)[:, tf.newaxis]], 1), tf.int32
        )

        def of_question(number: tf.Tensor) -> Outputs:
            part = slice(splits[number], splits[number + 1])
            of_context = GraphSpans(
                span_scores(logits, scored.rows[part], scored.places[part], scored.limits[part], self._longest),
                contexts.starts.values[part],
                contexts.limits.values[part],
                self._longest,
                context[number],
                offsets[number],
            )
            of_cls = tf.reduce_sum(logits[first_rows[number] : first_rows[number] + counts[number], 0], axis=-1)
            return self._answer_outputs(distinct_in_graph(of_context, self._n_best), tf.reduce_min(of_cls))

        numbers = tf.range(tf.size(counts))
        return tf.map_fn(of_question, numbers, fn_output_signature=self._output_specs(), parallel_iterations=1)

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns the answers that are tied with another one, and the positions of texts that occur more than once."""
        if "answer" not in outputs or not len(outputs["answer"]):
            return {}
        return span_ties.open_answers(samples[CONTEXT], outputs, self.logits_of_score * logit_error, self._threshold)

    def row(self, outputs: Tensors) -> dict[str, Any]:
        """Returns the best answer, and `n_best` with all candidates."""
        singular = {f"n_best_{plural}": name for name, plural in _PLURALS.items()}
        values = {name: python_values(value) for name, value in outputs.items()}
        columns = zip(*(values.pop(plural) for plural in singular), strict=True)
        n_best = [dict(zip(singular.values(), candidate, strict=True)) for candidate in columns]
        return values | {"n_best": [answer for answer in n_best if answer["answer"] or answer["probability"]]}

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns start_logits and end_logits [B, S]."""
        return self.run(self.checked(*ids))

    def _logits(self, rows: Outputs) -> tf.Tensor:
        outputs = self.run(rows)
        return tf.stack([outputs[START_LOGITS], outputs[END_LOGITS]], axis=-1)

    @property
    def _most(self) -> int:
        """K: the n best, and one more for the best text or "" if that is not among them."""
        return self._n_best + 1 if self._may_be_impossible else self._n_best

    def _output_specs(self) -> dict[str, tf.TensorSpec]:
        of_answer = {"answer": tf.string, "start": tf.int32, "end": tf.int32, "probability": tf.float32}
        if self._may_be_impossible:
            of_answer["null_odds"] = tf.float32
        n_best = {f"n_best_{plural}": of_answer[name] for name, plural in _PLURALS.items()}
        return {name: tf.TensorSpec([], dtype) for name, dtype in of_answer.items()} | {
            name: tf.TensorSpec([self._most], dtype) for name, dtype in n_best.items()
        }

    def _answer_outputs(self, answers: GraphAnswers, null_score: tf.Tensor) -> Outputs:
        """Returns the outputs for one question."""
        answer: Outputs = {}
        refused = tf.constant(False)
        if self._may_be_impossible:
            best = tf.concat([answers.scores, [0.0]], 0)[0]
            odds = null_score - best
            answer["null_odds"] = tf.cast(odds, tf.float32)
            refused = odds > self._threshold
            answers = with_null(answers, null_score, self._n_best)
        probabilities = tf.cast(tf.nn.softmax(answers.scores), tf.float32)
        texts = tf.where(answers.texts != "")[:, 0]
        has_answer = tf.size(texts) > 0
        columns = {
            "answer": (answers.texts, ""),
            "start": (answers.starts, -1),
            "end": (answers.ends, -1),
            "probability": (probabilities, 0.0),
        }
        # The probability of the answer "" is that of the candidate "", or 0 without such a candidate.
        null_probability = tf.reduce_sum(tf.where(answers.texts == "", probabilities, 0.0))
        at = tf.concat([texts, [0]], 0)[0]
        for name, (values, filler) in columns.items():
            chosen = tf.concat([values, [filler]], 0)[at]
            none = null_probability if name == "probability" else tf.constant(filler, values.dtype)
            answer[name] = tf.where(has_answer & ~refused, chosen, none)
            missing = tf.fill([self._most - tf.size(values)], tf.constant(filler, values.dtype))
            answer[f"n_best_{_PLURALS[name]}"] = tf.ensure_shape(tf.concat([values, missing], 0), [self._most])
        return answer
