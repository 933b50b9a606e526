"""Signatures of text classifiers and regression models, for one or two texts.

Shape legend: B batch, N rows, C classes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.encoding.graph import ROWS_AT_ONCE, Outputs, in_parts
from bert_tf.encoding.texts import TextsHead, windows_of
from bert_tf.export.checks import checked_texts
from bert_tf.export.kinds.base import Endpoint, Signatures, class_labels, python_values
from bert_tf.export.kinds.encoder import TEXT
from bert_tf.export.metadata import CLASSIFY, CLASSIFY_INPUTS, REGRESS
from bert_tf.export.verify.comparison import Tensors
from bert_tf.export.verify.tolerances import is_tie
from bert_tf.models import Preset

TEXT_PAIR = "text_pair"


class TextSignatures(Signatures):
    """Base class of classification and regression: one prediction a row, or the mean over a long text's windows."""

    task_length = TextsHead.max_sequence_length

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        super().__init__(preset, max_sequence_length)
        task = preset.task or {}
        columns = task.get("text_columns", 1)
        if columns not in (1, 2):
            raise ConfigError(f"task.json: `text_columns` must be 1 or 2. Received: {columns!r}")
        self.texts = (TEXT, TEXT_PAIR)[:columns]
        self._reads_windows = bool(task.get("windows"))

    @classmethod
    def of(cls, preset: Preset, max_sequence_length: int | None, top_k: int) -> Signatures:
        """Returns the signatures of regression for one output without label, else those of classification."""
        is_regression = preset.model.num_classes == 1 and not (preset.task or {}).get("labels")
        return (RegressionSignatures if is_regression else ClassifierSignatures)(preset, max_sequence_length)

    @abstractmethod
    def of_logits(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns the values that are averaged over windows, (N, C) float32."""

    def values(self, *texts: tf.Tensor) -> tf.Tensor:
        """Returns the predictions for texts, (B, C) float32."""
        columns = checked_texts(dict(zip(self.texts, texts, strict=True)))
        if not self._reads_windows:
            return self.of_logits(self.run(self.encode(*columns)))
        segments = [self.tokenizer.ids(column) for column in columns]
        segments, of = windows_of(segments, self.max_sequence_length - 1 - len(segments), TEXT)
        values = in_parts(lambda rows: self.of_logits(self.run(rows)), self.packed(segments), 2, ROWS_AT_ONCE)
        return tf.math.segment_mean(values, of)


class ClassifierSignatures(TextSignatures):
    """`serving_default`: text (and text_pair) [B] -> label [B] and probabilities [B, C].

    `classify` uses TF Serving's names: classes [B, C] and scores [B, C] for serialized tf.Examples.
    """

    logits = ("logits",)
    probabilities = ("probabilities", "scores")

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        super().__init__(preset, max_sequence_length)
        self._names = class_labels(preset)
        self.labels = self._names

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of all kinds, and `classify`."""
        inputs = (tf.TensorSpec([None], tf.string, CLASSIFY_INPUTS),)
        return {**super().endpoints, CLASSIFY: Endpoint(self._classify, inputs)}

    def of_logits(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns probabilities."""
        return tf.nn.softmax(logits)

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the most probable label, and the probabilities of all labels in order."""
        probabilities = self.values(*inputs)
        return {
            "label": tf.gather(tf.constant(self._names), tf.argmax(probabilities, axis=-1)),
            "probabilities": probabilities,
        }

    def row(self, outputs: Tensors) -> dict[str, Any]:
        """Returns `label`, and `probabilities` by class name."""
        named = dict(zip(self._names, python_values(outputs["probabilities"]), strict=True))
        return {"label": python_values(outputs["label"]), "probabilities": named}

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns the labels of texts whose two most probable classes are tied."""
        if "label" not in outputs:
            return {}
        # The mean over windows is a mean of probabilities; each has up to twice the error of a logit.
        return {"label": is_tie(outputs["probabilities"], logit_error * (2 if self._reads_windows else 1))}

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns logits and probabilities."""
        logits = self.run(self.checked(*ids))
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def _classify(self, examples: tf.Tensor) -> Outputs:
        scores = self.answer_examples(examples)["probabilities"]
        return {"classes": tf.broadcast_to(tf.constant(self._names), tf.shape(scores)), "scores": scores}


class RegressionSignatures(TextSignatures):
    """`serving_default`: text (and text_pair) [B] -> number [B] float32.

    `regress` uses TF Serving's name, outputs [B], for serialized tf.Examples.
    """

    def __init__(self, preset: Preset, max_sequence_length: int | None = None) -> None:
        super().__init__(preset, max_sequence_length)
        task = preset.task or {}
        self._mean, self._deviation = float(task.get("mean", 0.0)), float(task.get("deviation", 1.0))

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of all kinds, and `regress`."""
        inputs = (tf.TensorSpec([None], tf.string, CLASSIFY_INPUTS),)
        return {**super().endpoints, REGRESS: Endpoint(self._regress, inputs)}

    def of_logits(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns the logits."""
        return logits

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the predicted number on the scale of the task's files."""
        return {"number": self._mean + self._deviation * self.values(*inputs)[:, 0]}

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns the output of the model, which is standardized if task.json has `mean` and `deviation`."""
        return {"number": self.run(self.checked(*ids))[:, 0]}

    def _regress(self, examples: tf.Tensor) -> Outputs:
        return {"outputs": self.answer_examples(examples)["number"]}
