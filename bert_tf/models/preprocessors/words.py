"""Preprocessor of sentences of words with one label for each word.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.data.schema import SINGLE_OUTPUT
from bert_tf.encoding.rows import EncodedRows
from bert_tf.encoding.tags import MODEL_SCHEME, entity_labels
from bert_tf.encoding.words import Sentence, WordsHead, word_rows
from bert_tf.models.preprocessors.base import Preprocessor
from bert_tf.text import columns


@keras.saving.register_keras_serializable(package="bert_tf")
class BertWordPreprocessor(Preprocessor):
    """Turns sentences of words into `[CLS] words [SEP]`, and labels of words into labels of their first pieces.

    A sentence that is too long becomes several rows; each word has its label in one of them. Other tokens have weight
    0. It runs eagerly on any Keras backend, and converts a `tf.data.Dataset` in Python.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included.
        padding: `longest` pads a batch to its longest row, `fixed` to `sequence_length`.
        labels: names of the classes in the order of the model's outputs; None if labels are numbers. `fit` sets it
            from labels that are strings.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        x: lists of words, or a ragged string tensor, (B, None).
        y: labels of the words, in the same form: names or numbers.
        sample_weight: weights of the sentences, (B,).

    Returns:
        Dictionary of `token_ids`, `segment_ids` and `padding_mask`, each (B, S) int32; with labels, a tuple of it, the
        labels and the weights of all tokens, (B, S).

    Raises:
        ConfigError: for anything but lists of words, and for a sentence with another number of labels than words.

    Example:
        >>> preprocessor = bert_tf.BertWordPreprocessor.from_preset("runs/laptop", labels=("O", "B-FILM"))
        >>> inputs, targets, weights = preprocessor([["the", "films", "."]], [["O", "B-FILM", "O"]])
        >>> targets.tolist(), weights.astype(int).tolist()  # films is two pieces
        ([[0, 0, 1, 0, 0, 0]], [[0, 1, 1, 0, 1, 0]])
    """

    sequence_default: ClassVar[int] = 512
    by_token: ClassVar[bool] = True

    def encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> EncodedRows:
        """Encodes sentences as rows without padding; see `Preprocessor.encode`."""
        examples = self.examples(x)
        targets = None if y is None else self._targets([example.words for example in examples], y)
        rows = word_rows(examples, self.tokenizer, self.sequence_length, targets)
        if sample_weight is None:
            return rows
        of_rows = columns.values_of(sample_weight).astype(np.float32)[rows.examples]
        weights = rows.weights[SINGLE_OUTPUT] * np.repeat(of_rows, np.diff(rows.row_splits))
        return replace(rows, weights={SINGLE_OUTPUT: weights})

    def examples(self, x: Any) -> list[Sentence]:
        """Returns sentences as examples of the head, each a document of its own."""
        return [Sentence(Path(), 0, words, (), (), "", document=(words,)) for words in self.sentences(x)]

    def head(self, model: keras.Model) -> WordsHead | None:
        """Returns the head; None unless the labels are O, and B- and I- with types."""
        try:
            labels = entity_labels(self.labels or ())
        except ValueError:
            return None
        return WordsHead.of(self.task | {"labels": labels, "scheme": self.task.get("scheme") or MODEL_SCHEME})

    def predict_labels(self, model: keras.Model, x: Any) -> list[list[Any]]:
        """Returns the most probable class of each word: its name if there are `labels`, or its number.

        Names of entities are converted to the tagging scheme of the task, if it has another one.
        """
        names = self.labels or tuple(map(str, range(model.num_classes)))
        head = WordsHead(scheme=self.task.get("scheme", ""), labels=names)
        tags = [list(answer.tags) for answer in self.answers(model, x, head)]
        return tags if self.labels else [[int(tag) for tag in row] for row in tags]

    def label_names(self, y: Any) -> set[str]:
        """Returns the distinct labels of words if they are strings; an empty set otherwise."""
        flat = [label for labels in (columns.items_of(y) if y is not None else ()) for label in labels]
        return super().label_names(flat) if flat else set()

    def sentences(self, x: Any) -> list[tuple[str, ...]]:
        """Returns the words of each sentence; empty strings at the end, the padding of tensors, are dropped."""
        found = []
        for row, words in enumerate(columns.items_of(x)):
            if isinstance(words, str | bytes):
                raise ConfigError(f"`x` must hold lists of words. Received: {words!r} in row {row}. Split the text.")
            texts = columns.texts_of(words, "words")
            while texts and not texts[-1]:
                texts.pop()
            found.append(tuple(texts))
        return found

    def _targets(self, sentences: Sequence[tuple[str, ...]], y: Any) -> np.ndarray:
        flat: list[Any] = []
        rows = columns.items_of(y)
        if len(rows) != len(sentences):
            raise ConfigError(f"`y` must have one list for each of {len(sentences)} sentences. Received: {len(rows)}")
        for row, (words, labels) in enumerate(zip(sentences, rows, strict=True)):
            labels = list(columns.items_of(labels))
            if len(labels) < len(words) or any(label not in (0, b"", "", -1) for label in labels[len(words) :]):
                raise ConfigError(
                    f"`y` must have a label for each of the {len(words)} words of row {row}. Received: {len(labels)}"
                )
            flat += labels[: len(words)]
        return self.numbers_of(np.array(flat)).astype(np.int32) if flat else np.zeros(0, np.int32)
