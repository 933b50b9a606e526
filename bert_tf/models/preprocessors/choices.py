"""Preprocessor of a text with several choices.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.encoding.choices import ChoiceHead, choice_examples
from bert_tf.encoding.rows import EncodedRows
from bert_tf.models.preprocessors.text import BertTextPreprocessor, checked_rows, weights_of
from bert_tf.text import columns
from bert_tf.text.tokenizer import string_tensor


@keras.saving.register_keras_serializable(package="bert_tf")
class BertChoicePreprocessor(BertTextPreprocessor):
    """Turns a text and its choices into one pair for each choice: `[CLS] text [SEP] choice [SEP]`.

    Args:
        tokenizer: the tokenizer, or a mapping of its `vocabulary` (a list of pieces) and `lowercase`.
        sequence_length: maximum tokens of a row, special tokens included.
        truncation: as in `BertTextPreprocessor`; the choice is the second text.
        padding: `longest` pads a batch to its longest row, `fixed` to `sequence_length`.
        labels: None; labels are numbers of choices.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        x: tuple, dictionary or data frame of two columns: texts (B,), and lists of choices (B, N).
        y: number of the right choice, (B,).
        sample_weight: weights, (B,).

    Returns:
        Dictionary of `token_ids`, `segment_ids` and `padding_mask`, each (B, N, S) int32; with labels, a tuple of it,
        the labels and the weights, if any.

    Raises:
        ConfigError: for texts with different numbers of choices.

    Example:
        >>> preprocessor = bert_tf.BertChoicePreprocessor.from_preset("runs/laptop")
        >>> inputs = preprocessor((["the film was"], [["good", "dull", "a story"]]))
        >>> inputs["token_ids"].shape
        TensorShape([1, 3, 8])
    """

    def call(self, x, y=None, sample_weight=None):
        """Returns the model's inputs, or a tuple of inputs, labels and weights if there are labels."""
        texts, choices = self._checked_columns(x)
        if not tf.is_tensor(texts) or not tf.is_tensor(choices):
            flat, count = self._flat(texts, choices)
            pairs = tuple(string_tensor(column) for column in flat)
        else:
            count = choices.shape[-1] or tf.shape(choices)[-1]
            pairs = tf.repeat(tf.reshape(texts, [-1]), count), tf.reshape(choices, [-1])
        inputs = self._packed(pairs, self.padding == "fixed")
        inputs = {
            name: tf.reshape(values, tf.stack([-1, count, tf.shape(values)[1]])) for name, values in inputs.items()
        }
        if tf.executing_eagerly() and keras.backend.backend() != "tensorflow":
            inputs = {name: values.numpy() for name, values in inputs.items()}
        return keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight)

    def encode(self, x: Any, y: Any = None, sample_weight: Any = None) -> EncodedRows:
        """Encodes a pair for each choice; see `Preprocessor.encode`."""
        pairs, count = self._flat(*self._checked_columns(x))
        rows = super().encode(pairs)
        rows = replace(rows, examples=np.arange(len(rows) // count), choices=count)
        if y is None:
            return rows
        weights = None if sample_weight is None else weights_of(sample_weight, len(rows))
        return rows.with_targets(checked_rows(self._targets(y), len(rows), "y"), weights)

    def training_data(self, model: keras.Model, data: Any, batch_size: int, options: Any) -> Any:
        """Returns the training and validation data of `fit`, whose number of choices becomes that of the task."""
        found = super().training_data(model, data, batch_size, options)
        if "choices" in self.task and not isinstance(data[0], tf.data.Dataset):
            self.task["choices"] = self._flat(*self._checked_columns(data[0]))[1]
        return found

    def examples(self, x: Any) -> list[Any]:
        """Returns texts and their choices as examples of the head."""
        texts, choices = self._checked_columns(x)
        column = columns.texts_of(texts, "texts"), columns.items_of(choices)
        return choice_examples(column, self.task.get("choices", 0))

    def head(self, model: keras.Model) -> ChoiceHead:
        """Returns the head of the task, or one for any number of choices."""
        return ChoiceHead.of(self.task)

    def predict_labels(self, model: keras.Model, x: Any) -> list[int]:
        """Returns the number of the most probable choice of each text."""
        return [answer.choice for answer in self.answers(model, x, self.head(model))]

    def _checked_columns(self, x: Any) -> tuple[Any, ...]:
        found = columns.columns_of(x)
        if len(found) != 2:
            raise ConfigError(f"`x` must be a tuple or dictionary of texts and choices. Received: {len(found)} column")
        return found

    def _flat(self, texts: Any, choices: Any) -> tuple[tuple[list[str], list[str]], int]:
        """Returns the pairs of all choices as two columns, and the number of choices of a text."""
        firsts = columns.texts_of(texts, "texts")
        lists = [columns.texts_of(row, "choices") for row in columns.items_of(choices)]
        counts = sorted({len(row) for row in lists})
        if len(lists) != len(firsts) or len(counts) != 1 or not counts[0]:
            raise ConfigError(
                f"each text must have the same number of choices. Received: {len(firsts)} texts and {len(lists)} lists "
                f"of {', '.join(map(str, counts))} choices"
            )
        count = counts[0]
        repeated = [text for text in firsts for _ in range(count)]
        return (repeated, [choice for row in lists for choice in row]), count
