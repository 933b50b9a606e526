"""Signatures of multiple-choice models.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.data.schema import TOKEN_IDS
from bert_tf.encoding.choices import ChoiceHead
from bert_tf.encoding.graph import ROWS_AT_ONCE, Outputs, in_parts
from bert_tf.export.checks import checked_choices
from bert_tf.export.kinds.base import Signatures
from bert_tf.export.kinds.encoder import TEXT
from bert_tf.export.verify.comparison import Tensors
from bert_tf.export.verify.tolerances import is_tie

CHOICES = "choices"


class ChoiceSignatures(Signatures):
    """`serving_default`: text [B] and choices [B, N] -> choice [B] int32, counted from 0, and probabilities [B, N].

    Each choice forms a pair with the text. For SWAG, the text is `sent1`; a choice is `sent2`, a space and an ending.
    `ids` takes the rows of all choices, (B x N, S), and returns the logit of each row, (B x N).
    """

    task_length = ChoiceHead.max_sequence_length
    texts = (TEXT, CHOICES)
    logits = ("logits",)
    probabilities = ("probabilities",)

    @property
    def text_inputs(self) -> tuple[tf.TensorSpec, ...]:
        """The text [B] and its choices [B, N]."""
        return tf.TensorSpec([None], tf.string, TEXT), tf.TensorSpec([None, None], tf.string, CHOICES)

    @property
    def features(self) -> Mapping[str, Any]:
        """The text and its choices, a fixed number of them if task.json has `choices`."""
        count = (self.preset.task or {}).get("choices") or None
        of_row = tf.io.FixedLenFeature([count], tf.string) if count else None
        return {
            TEXT: tf.io.FixedLenFeature([], tf.string),
            CHOICES: of_row or tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
        }

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the most probable choice, and the probabilities of all choices in order."""
        text, choices = inputs
        text, choices = checked_choices(text, choices, (TEXT, CHOICES))
        shape = tf.shape(choices)
        rows = self.encode(tf.repeat(text, shape[1]), tf.reshape(choices, [-1]))
        probabilities = tf.nn.softmax(tf.reshape(in_parts(self._logits, rows, 1, ROWS_AT_ONCE), shape))
        return {"choice": tf.argmax(probabilities, axis=-1, output_type=tf.int32), "probabilities": probabilities}

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns the choices whose two largest probabilities are tied."""
        return {"choice": is_tie(outputs["probabilities"], logit_error)} if "choice" in outputs else {}

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns the logit of each row."""
        return {"logits": self._logits(self.checked(*ids))}

    def _logits(self, rows: Outputs) -> tf.Tensor:
        """Returns the logit of each row, scored as the only choice of its text, (B x N)."""
        batch, length = tf.unstack(tf.shape(rows[TOKEN_IDS]))
        alone = {name: tf.reshape(tensor, [batch, 1, length]) for name, tensor in rows.items()}
        return self.run(alone)[:, 0]
