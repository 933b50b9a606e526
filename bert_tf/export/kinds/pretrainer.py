"""Signatures of pre-training models: candidates for each [MASK].

Shape legend: B batch, S sequence, P predictions, M masks in a text, K candidates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import ConfigError
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS, TOKEN_IDS
from bert_tf.encoding.graph import Outputs
from bert_tf.export.checks import checked_mask_count, checked_positions, checked_texts
from bert_tf.export.kinds.base import Endpoint, matrix, python_values
from bert_tf.export.kinds.encoder import TEXT, EncoderSignatures
from bert_tf.export.verify.comparison import Tensors
from bert_tf.export.verify.tolerances import close
from bert_tf.models import Preset


class PretrainerSignatures(EncoderSignatures):
    """`serving_default`: text [B] with [MASK] -> tokens [B, M, K] and scores; `top_k` is K.

    `embed` returns the embeddings of the encoder, `layers` those of any layers. `ids` has no nsp_logits if the model
    has no next sentence prediction head. Raises ConfigError for a model without masked language model, a left-to-right
    one included, and for more candidates than word pieces.
    """

    logits = (MLM_LOGITS,)
    probabilities = ("scores",)

    def __init__(self, preset: Preset, max_sequence_length: int | None = None, top_k: int = 5) -> None:
        super().__init__(preset, max_sequence_length)
        if not preset.model.masked_lm:
            raise ConfigError("a BertPretrainer must have a masked language model. Received: one without")
        if preset.config.objective != "mlm":
            raise ConfigError(
                "a BertPretrainer must be a masked language model. Received: a left-to-right one, whose head predicts "
                "the next token and fills no [MASK]. Fine-tune it on a task and export the result."
            )
        if not 1 <= top_k <= len(preset.vocabulary):
            raise ConfigError(f"`top_k` must lie in 1..{len(preset.vocabulary)}. Received: {top_k}")
        self.top_k = self._count = top_k

    @classmethod
    def of(cls, preset: Preset, max_sequence_length: int | None, top_k: int) -> PretrainerSignatures:
        """Returns the signatures of a preset."""
        return cls(preset, max_sequence_length, top_k)

    @property
    def ids_inputs(self) -> tuple[tf.TensorSpec, ...]:
        """The model's inputs, mask_positions [B, P] last."""
        return (*super().ids_inputs, matrix(MASK_POSITIONS))

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The signatures of an encoder, and `embed`."""
        return {**super().endpoints, "embed": Endpoint(self.embed, self.text_inputs)}

    def answer(self, *inputs: tf.Tensor) -> Outputs:
        """Returns the most probable word pieces for each [MASK], padded with "" for texts with fewer masks."""
        return self._best_pieces(inputs, self._count)

    def _best_pieces(self, inputs: tuple[tf.Tensor, ...], count: int) -> Outputs:
        """Returns the `count` most probable word pieces for each [MASK]."""
        (column,) = checked_texts(dict(zip(self.texts, inputs, strict=True)))
        encoded = self.encode(column, keep_mask_token=True)
        is_mask = tf.equal(encoded[TOKEN_IDS], self.vocabulary.mask_id)
        columns = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        masks = tf.ragged.boolean_mask(columns, is_mask)
        positions = checked_mask_count(masks.to_tensor(), TEXT)
        logits = self.run({**encoded, MASK_POSITIONS: positions})[MLM_LOGITS]
        scores, candidates = tf.math.top_k(tf.nn.softmax(logits), count)
        present = tf.sequence_mask(masks.row_lengths(), tf.shape(positions)[1])[..., tf.newaxis]
        tokens = tf.gather(tf.constant(self.vocabulary.tokens), candidates)
        return {"tokens": tf.where(present, tokens, ""), "scores": tf.where(present, scores, 0.0)}

    def open_values(self, signature: str, samples: Tensors, outputs: Tensors, logit_error: float) -> Tensors:
        """Returns the pieces that are tied with the next or the previous candidate."""
        if "tokens" not in outputs or not len(outputs["tokens"]):
            return {}
        count = outputs["tokens"].shape[-1]
        texts = tf.constant(samples[TEXT])
        # One candidate more shows whether the last one is tied.
        wider = self._best_pieces((texts,), min(count + 1, len(self.vocabulary)))["scores"].numpy()
        tied = close(wider[..., :-1], wider[..., 1:], logit_error)
        after = np.pad(tied, [(0, 0), (0, 0), (0, max(0, count - tied.shape[-1]))])
        before = np.pad(tied, [(0, 0), (0, 0), (1, 0)])[..., :count]
        return {"tokens": after | before}

    def row(self, outputs: Tensors) -> dict[str, Any]:
        """Returns `masks`: the candidates for each [MASK], each with `token` and `score`."""
        pairs = zip(python_values(outputs["tokens"]), python_values(outputs["scores"]), strict=True)
        # Texts with fewer masks are padded with empty tokens.
        masks = [zip(tokens, scores, strict=True) for tokens, scores in pairs if tokens[0]]
        return {"masks": [[{"token": token, "score": score} for token, score in mask] for mask in masks]}

    def answer_ids(self, *ids: tf.Tensor) -> Outputs:
        """Returns the logits of both objectives."""
        *inputs, mask_positions = ids
        checked = self.checked(*inputs)
        positions = checked_positions(mask_positions, checked[TOKEN_IDS])
        outputs = self.run({**checked, MASK_POSITIONS: positions})
        return {name: outputs[name] for name in (MLM_LOGITS, NSP_LOGITS) if name in outputs}
