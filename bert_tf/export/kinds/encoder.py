"""Signatures of encoders: embeddings of texts.

Shape legend: B batch, S sequence, H hidden, L requested layers of a row, N layers of the encoder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_tf.data.schema import PADDING_MASK
from bert_tf.encoding.graph import Outputs
from bert_tf.export.checks import checked_layers, checked_texts
from bert_tf.export.kinds.base import Endpoint, Signatures, matrix, once_traced
from bert_tf.models import BertBackbone

TEXT, LAYERS = "text", "layers"


class EncoderSignatures(Signatures):
    """`serving_default`: text [B] -> pooled_output and mean_output [B, H] float32; `ids` also returns sequence_output.

    An encoder without pooler has no pooled_output. `layers`: text [B] and layers [B, L] -> first_output and
    mean_output [B, L, H] of any layers. Each row has its own layers, so rows of several requests can be batched.
    """

    texts = (TEXT,)
    by_token: tuple[str, ...] = ("sequence_output",)
    outputs_of_tanh = ("pooled_output",)

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of all kinds, and `layers`."""
        return {**super().endpoints, LAYERS: Endpoint(self.embed_layers, (*self.text_inputs, matrix(LAYERS)))}

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the embeddings of texts."""
        return self.embed(*inputs)

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns the outputs of the encoder, and the mean over the tokens."""
        return self._embedded(self.checked(*ids))

    def embed(self, text: tf.Tensor) -> Outputs:
        """Returns the embeddings of texts."""
        outputs = self._embedded(self._rows(*checked_texts({TEXT: text})))
        return {name: outputs[name] for name in ("pooled_output", "mean_output") if name in outputs}

    def embed_layers(self, text: tf.Tensor, layers: tf.Tensor) -> Outputs:
        """Returns the embeddings of texts [B] in the requested layers [B, L] int32, L at most N + 1.

        Layer 0 is the embedding layer, 1 to N are the encoder layers; negative numbers count from the end.
        `first_output` is the vector of [CLS], `mean_output` the mean over all tokens; float32 [B, L, H].
        """
        (column,) = checked_texts({TEXT: text})
        count = self._encoder.config.num_layers + 1
        chosen = checked_layers(layers, column, (LAYERS, TEXT), count)
        inputs = self._rows(column)
        encoded = self._encoded(inputs)
        hidden = [encoded[name] for name in self._encoder.layer_outputs]
        first = tf.stack([tf.cast(layer[:, 0], tf.float32) for layer in hidden], axis=1)
        mean = tf.stack([_mean(layer, inputs[PADDING_MASK]) for layer in hidden], axis=1)
        numbers = tf.where(chosen < 0, chosen + count, chosen)
        outputs = {"first_output": first, "mean_output": mean}
        return {name: tf.gather(vectors, numbers, axis=1, batch_dims=1) for name, vectors in outputs.items()}

    @property
    def _encoder(self) -> BertBackbone:
        return getattr(self.model, "backbone", self.model)

    @functools.cached_property
    def _rows(self) -> Callable[[tf.Tensor], Outputs]:
        """`encode` as one graph function that all text signatures share."""
        return tf.function(self.encode, input_signature=self.text_inputs, autograph=False)

    @functools.cached_property
    def _encoded(self) -> Callable[[Outputs], Outputs]:
        """All outputs of the encoder; the graph optimizer removes those that a signature does not use."""
        encoder = self._encoder
        return once_traced(keras.Model(encoder.input, {**encoder.layer_outputs, **encoder.output}, name="encoded"))

    def _embedded(self, inputs: Outputs) -> Outputs:
        encoded = self._encoded(inputs)
        outputs = {name: tf.cast(encoded[name], tf.float32) for name in self._encoder.output}
        return {**outputs, "mean_output": _mean(outputs["sequence_output"], inputs[PADDING_MASK])}


def _mean(hidden: tf.Tensor, padding_mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean [B, H] float32 of hidden states [B, S, H] over the tokens that are not padding."""
    mask = tf.cast(padding_mask, tf.float32)[..., tf.newaxis]
    tokens = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
    return tf.reduce_sum(tf.cast(hidden, tf.float32) * mask, axis=1) / tokens
