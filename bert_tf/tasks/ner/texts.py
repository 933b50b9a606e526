"""Sentences of texts, and entities with their positions in the text."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import ConfigError
from bert_tf.tasks.ner.files import Sentence
from bert_tf.tasks.ner.tags import entities
from bert_tf.tasks.predictions import EntityPrediction, WordsPrediction
from bert_tf.text import columns, words
from bert_tf.text.tokenizer import string_tensor

# Name of the input, as in exported models.
TEXT_NAME = "text"


@dataclass(frozen=True)
class NerAnswer:
    """The tag of each word in the scheme of the task.

    `classes` are the tags that the model predicts, before they are converted to the scheme, and `probabilities` their
    probabilities; both are () if the tags were read from a file. `distributions` has the probability of each class,
    float32 (words, classes), for ensembles.
    """

    tags: tuple[str, ...]
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    distributions: np.ndarray | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class TextSentence(Sentence):
    """The words of a text, with the first character of each and the character after its last."""

    text: str = ""
    starts: tuple[int, ...] = ()
    limits: tuple[int, ...] = ()


def sentences_of(x: Any) -> list[TextSentence]:
    """Returns the sentence of each text.

    Args:
        x: texts, which are split into words as in exported models (`text.words`); or lists of words, whose text is the
            words joined by single spaces; or a single text; or a dictionary or data frame with such a column.

    Returns:
        The sentences; each is a document of its own.

    Raises:
        ConfigError: for anything else, with the number of the row.
    """
    if isinstance(x, str | bytes):
        x = [x]
    column = columns.named_columns(x, (TEXT_NAME,))[0] if isinstance(x, Mapping) or hasattr(x, "columns") else x
    rows = [row.decode("utf-8", "replace") if isinstance(row, bytes) else row for row in columns.items_of(column)]
    split = iter(_split([row for row in rows if isinstance(row, str)]))
    return [
        next(split) if isinstance(row, str) else _of_words(_checked_words(row, number))
        for number, row in enumerate(rows)
    ]


def prediction_of(sentence: Sentence, answer: NerAnswer) -> WordsPrediction:
    """Returns the entities of a sentence; a sentence from a file has the text of its words joined by single spaces."""
    in_text = sentence if isinstance(sentence, TextSentence) else _of_words(sentence.words)
    found: list[EntityPrediction] = []
    for entity in entities(answer.classes):
        start, end = in_text.starts[entity.start], in_text.limits[entity.end - 1]
        found.append(
            {
                "entity": in_text.text[start:end],
                "type": entity.type,
                "start": start,
                "end": end,
                "score": float(np.mean(answer.probabilities[entity.start : entity.end])),
            }
        )
    return {"entities": found, "words": list(sentence.words), "tags": list(answer.tags)}


def _split(texts: Sequence[str]) -> list[TextSentence]:
    """Splits texts into words."""
    found = words.split(string_tensor(texts), at_spaces_only=False)
    strings = [word.decode("utf-8") for word in found.strings.numpy()]
    starts, limits = found.starts.numpy().tolist(), found.limits.numpy().tolist()
    bounds = itertools.pairwise(found.row_splits.numpy().tolist())
    return [
        _sentence(text, strings[begin:end], starts[begin:end], limits[begin:end])
        for text, (begin, end) in zip(texts, bounds, strict=True)
    ]


def _checked_words(row: Any, number: int) -> list[str]:
    held = columns.items_of(row) if isinstance(row, Iterable) else [row]
    strings = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word for word in held]
    for word in strings:
        if not isinstance(word, str):
            raise ConfigError(
                f"`{TEXT_NAME}` must hold texts or lists of words. Received: {word!r} in row {number}. "
                "Remove or convert it."
            )
    return strings


def _of_words(sentence: Sequence[str]) -> TextSentence:
    limits = (np.cumsum([len(word) + 1 for word in sentence], dtype=np.int64) - 1).tolist()
    starts = [limit - len(word) for limit, word in zip(limits, sentence, strict=True)]
    return _sentence(" ".join(sentence), sentence, starts, limits)


def _sentence(text: str, sentence: Sequence[str], starts: Sequence[int], limits: Sequence[int]) -> TextSentence:
    held = tuple(sentence)
    return TextSentence(
        Path(), 0, held, (), (), "", document=(held,), text=text, starts=tuple(starts), limits=tuple(limits)
    )
