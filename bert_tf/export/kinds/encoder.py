"""Embeddings of texts."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK
from bert_tf.export.checks import checked_texts
from bert_tf.export.kinds.base import Outputs, Signatures

TEXT = "text"


class EncoderSignatures(Signatures):
    """`serving_default`: text [B] -> pooled_output and mean_output [B, H] float32; `ids` gives sequence_output as well.

    An encoder without pooler gives no pooled_output.
    """

    texts = (TEXT,)

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the vectors of texts."""
        return self.embed(*inputs)

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns what the encoder gives, and its mean over the tokens."""
        return self._embedded(self.checked(*ids))

    def embed(self, text: tf.Tensor) -> Outputs:
        """Returns the vectors of texts."""
        outputs = self._embedded(self.encode(*checked_texts({TEXT: text})))
        return {name: outputs[name] for name in ("pooled_output", "mean_output") if name in outputs}

    def _embedded(self, inputs: Outputs) -> Outputs:
        hidden = getattr(self.model, "backbone", self.model)(inputs, training=False)
        outputs = {name: tf.cast(values, tf.float32) for name, values in hidden.items()}
        mask = tf.cast(inputs[PADDING_MASK], tf.float32)[..., tf.newaxis]
        tokens = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
        return {**outputs, "mean_output": tf.reduce_sum(outputs["sequence_output"] * mask, axis=1) / tokens}
