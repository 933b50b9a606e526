"""Preprocessor of questions about contexts.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.encoding.answers import LEAST_BESIDE_QUERY, NullableSpanHead, SpanHead
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.spans import GoldSpan, SquadExample
from bert_tf.models.preprocessors.base import PADDINGS, Preprocessor
from bert_tf.text import columns
from bert_tf.text.tokenizer import TextTokenizer


@keras.saving.register_keras_serializable(package="bert_tf")
class BertSpanPreprocessor(Preprocessor):
    """Turns questions and contexts into `[CLS] question [SEP] context [SEP]`, and answers into tokens.

    A context that is too long becomes several windows, one row each. It runs eagerly on any Keras backend, and converts
    a `tf.data.Dataset` in Python.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included.
        doc_stride: tokens between the beginnings of consecutive windows.
        max_query_length: maximum tokens of a question, or half of a row if it leaves no room for a context; longer
            questions are truncated.
        no_answer: whether a context may have no answer. `fit` sets it if an answer is empty.
        **kwargs: `padding`; `null_threshold` (there is no answer if its score exceeds that of the best answer by more;
            `calibrate` sets it); and arguments of `keras.layers.Layer`.

    Call arguments:
        x: tuple, dictionary or data frame of two columns: questions and contexts, (B,).
        y: texts of the answers, (B,), whose first occurrence in the context is the answer; or a tuple or dictionary of
            two columns: texts, and the positions of their first characters in the contexts. An empty text, or None,
            means no answer.
        sample_weight: weights of the questions, (B,).

    Returns:
        Dictionary of `token_ids`, `segment_ids` and `padding_mask`, each (B, S) int32; with answers, a tuple of it, a
        dictionary of the targets `start_logits` and `end_logits`, and their weights, if any.

    Raises:
        ConfigError: for an answer that is not in its context.

    Example:
        >>> preprocessor = bert_tf.BertSpanPreprocessor.from_preset("runs/laptop")
        >>> x = ["the film was"], ["the film was very good and long"]
        >>> inputs, targets = preprocessor(x, ["very good"])
        >>> targets["start_logits"].tolist(), targets["end_logits"].tolist()
        ([8], [9])
    """

    sequence_default: ClassVar[int] = 384
    by_token: ClassVar[bool] = True

    def __init__(
        self,
        tokenizer: TextTokenizer | Mapping[str, Any],
        sequence_length: int = 384,
        doc_stride: int = 128,
        max_query_length: int = 64,
        no_answer: bool = False,
        **kwargs: Any,
    ) -> None:
        null_threshold = kwargs.pop("null_threshold", 0.0)
        super().__init__(tokenizer, sequence_length, kwargs.pop("padding", PADDINGS[0]), **kwargs)
        self.null_threshold = float(null_threshold)
        self.doc_stride = doc_stride
        self.max_query_length = max_query_length
        self.no_answer = no_answer

    def head(self, model: keras.Model | None = None) -> SpanHead:
        """Returns the head, with or without the possibility that there is no answer."""
        limit = self.max_query_length
        if limit > self.sequence_length - LEAST_BESIDE_QUERY:
            limit = max(1, (self.sequence_length - LEAST_BESIDE_QUERY) // 2)
        fields = self.task | {"doc_stride": self.doc_stride, "max_query_length": limit}
        if not self.no_answer:
            return SpanHead.of(fields)
        return NullableSpanHead.of(fields | {"null_threshold": self.null_threshold})

    def examples(self, x: Any) -> list[SquadExample]:
        """Returns questions and contexts as examples of the head."""
        return self._examples(x, None)

    def encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> EncodedRows:
        """Encodes the windows of questions; see `Preprocessor.encode`."""
        rows = self.head().encode(self._examples(x, y), self.tokenizer, self.sequence_length, labelled=y is not None)
        if sample_weight is None or y is None:
            return rows
        weights = columns.values_of(sample_weight).astype(np.float32)[rows.examples]
        return replace(rows, weights={name: weights * rows.weights.get(name, 1.0) for name in rows.targets})

    def predict_answers(self, model: keras.Model, x: Any) -> list[str]:
        """Returns the best answer to each question; "" for no answer."""
        return [answer.text or "" for answer in self.answers(model, x, self.head())]

    def calibrate(self, model: keras.Model, x: Any, y: Any) -> float:
        """Sets the threshold of no answer to that of the best F1 for the answers `y`, and returns it."""
        if not self.no_answer:
            raise ConfigError(
                "`calibrate` is for questions that may have no answer. Received: `no_answer` is False. Train with an "
                "empty text as the answer of such questions, or set `model.preprocessor.no_answer`."
            )
        examples, head = self._examples(x, y), self.head()
        if not examples:
            raise ConfigError("`x` must hold at least one question. Received: none")
        assert isinstance(head, NullableSpanHead)
        self.null_threshold = head.calibrate(examples, self.answers(model, x, head)).threshold
        return self.null_threshold

    def adapt_labels(self, y: Any, model: Any) -> None:
        """Sets `no_answer` if an answer is empty."""
        if y is not None and not all(text for text, _ in _answers(y)):
            self.no_answer = True

    def task_json(self, model: keras.Model) -> dict[str, Any] | None:
        """Returns task.json of the task `squad1`, or of `squad2` with `no_answer`; see `Preprocessor.task_json`."""
        content, head = (super().task_json(model) or {}), self.head()
        if not head.may_be_impossible:
            content.pop("null_threshold", None)
        return content | {"task": head.name}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the fingerprint of the tokenizer."""
        config = super().get_config()
        del config["labels"]
        names = ("doc_stride", "max_query_length", "no_answer", "null_threshold")
        return config | {name: getattr(self, name) for name in names}

    @classmethod
    def _arguments_of(cls, task: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
        names = [name for name in ("doc_stride", "max_query_length", "null_threshold") if name in task]
        return {name: task[name] for name in names} | {"no_answer": task.get("task") == NullableSpanHead.name}

    def _examples(self, x: Any, y: Any) -> list[SquadExample]:
        found = columns.columns_of(x)
        if len(found) != 2:
            raise ConfigError(f"`x` must be a tuple or dictionary of questions and contexts. Received: {len(found)}")
        questions, contexts = (columns.texts_of(column, name) for column, name in zip(found, _NAMES, strict=True))
        answers = [("", -1)] * len(questions) if y is None else _answers(y)
        if not len(questions) == len(contexts) == len(answers):
            raise ConfigError(
                "each question must have a context and an answer. "
                f"Received: {len(questions)} questions, {len(contexts)} contexts and {len(answers)} answers"
            )
        return [
            SquadExample(f"row {row}", str(row), question, context, _gold(text, start, context, row))
            for row, (question, context, (text, start)) in enumerate(zip(questions, contexts, answers, strict=True))
        ]


_NAMES = ("questions", "contexts")


def _answers(y: Any) -> list[tuple[str, int]]:
    """Returns text and start of each answer; -1 for the first occurrence of the text."""
    found: Sequence[Any] = columns.columns_of(y)
    if len(found) == 1:
        return [(_text(text), -1) for text in columns.items_of(found[0])]
    # The starts are the column of numbers.
    lists = sorted((list(columns.items_of(column)) for column in found), key=_are_numbers)
    if len(lists) != 2 or not _are_numbers(lists[1]):
        raise ConfigError("`y` must be texts, or a tuple or dictionary of texts and starts. Received: other columns")
    return [(_text(text), int(start)) for text, start in zip(*lists, strict=True)]


def _are_numbers(column: Sequence[Any]) -> bool:
    return all(isinstance(value, int | np.integer) for value in column)


def _text(value: Any) -> str:
    return "" if value is None else value.decode() if isinstance(value, bytes) else str(value)


def _gold(text: str, start: int, context: str, row: int) -> tuple[GoldSpan, ...]:
    if not text:
        return ()
    start = context.find(text) if start < 0 else start
    if start < 0 or context[start : start + len(text)] != text:
        raise ConfigError(
            f"an answer must be in its context at its start. Received: {text!r} in row {row}, for the context "
            f"{context[:60]!r}. Correct the text or its start, or pass an empty text for no answer."
        )
    return (GoldSpan(text, start, start + len(text)),)
