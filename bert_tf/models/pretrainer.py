"""BERT encoder with the pre-training heads.

Shape legend: B batch, S sequence, P predictions, V vocabulary; packed: R rows, M examples per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS
from bert_tf.layers.pretraining_heads import MaskedLMHead, NextSentenceHead
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.base import TaskModel
from bert_tf.models.kinds import register_model


@register_model(convertible=True)
class BertPretrainer(TaskModel):
    """Masked language model and next sentence prediction (arXiv 1810.04805, section 3.1).

    On an encoder with left-to-right attention, the head of the masked language model predicts the token after each of
    the given positions instead (section 5.1); see `training.objective`.

    Args:
        backbone: the encoder; the heads take its dtype policy.
        masked_lm: whether to add the masked language model head.
        next_sentence: whether to add the next sentence prediction head, which requires a pooler.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

    Call arguments:
        inputs: dictionary of the encoder's inputs and, for the masked language model, `mask_positions` (B, P) int32 in
            [0, S).

    Returns:
        Dictionary of `mlm_logits` (B, P, V) and `nsp_logits` (B, 2), both float32; one entry per head.

    Raises:
        ConfigError: if there is no head, or for next sentence prediction with an encoder without pooler.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> model = bert_tf.BertPretrainer(backbone)
        >>> ids = np.array([[2, 5, 4, 3]])  # 4 is the id of [MASK]
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}
        >>> outputs = model(inputs | {"mask_positions": np.array([[2]])})
        >>> keras.ops.shape(outputs["mlm_logits"]), keras.ops.shape(outputs["nsp_logits"])
        ((1, 1, 100), (1, 2))
    """

    masked_lm: bool
    next_sentence: bool

    def __init__(
        self,
        backbone: BertBackbone,
        masked_lm: bool = True,
        next_sentence: bool = True,
        name: str = "bert_pretrainer",
        **kwargs: Any,
    ) -> None:
        if not (masked_lm or next_sentence):
            raise ConfigError("a BertPretrainer requires `masked_lm`, `next_sentence` or both. Received: neither")
        if next_sentence and not backbone.config.pooler:
            raise ConfigError("`next_sentence` needs an encoder with `pooler` = True. Received: False")
        heads: dict[str, Any] = {MLM_LOGITS: masked_lm_head(backbone)} if masked_lm else {}
        if next_sentence:
            heads[NSP_LOGITS] = NextSentenceHead(
                backbone.config.initializer_range, dtype=backbone.dtype_policy, name=NSP_LOGITS
            )
        inputs, outputs = _attach_heads(backbone, heads)
        arguments = {"masked_lm": masked_lm, "next_sentence": next_sentence}
        super().__init__(backbone, inputs, outputs, arguments, name, **kwargs)
        self._heads = heads

    def packed(self) -> keras.Model:
        """Returns a model with shared weights for packed rows of several examples (see `data.input.packing`).

        Returns:
            A model with the inputs of `BertBackbone.packed` and `mask_positions` (R, P). It outputs `mlm_logits`
            (R, P, V) and `nsp_logits` (R, M, 2), both float32.
        """
        return keras.Model(*_attach_heads(self.backbone.packed(), self._heads), name="packed_pretrainer")


def masked_lm_head(backbone: BertBackbone) -> MaskedLMHead:
    """Returns a new head of the masked language model for an encoder."""
    config = backbone.config
    activation, epsilon = config.mlm_head
    return MaskedLMHead(
        backbone.token_embedding,
        activation=activation,
        layer_norm_epsilon=epsilon,
        initializer_range=config.initializer_range,
        use_bias=config.biases,
        normalization_bias=config.normalization_bias,
        dtype=backbone.dtype_policy,
        name=MLM_LOGITS,
    )


def _attach_heads(encoder: keras.Model, heads: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Applies `heads`, keyed by the names of their logits, to an encoder; returns symbolic inputs and outputs."""
    inputs, encoded = dict(encoder.input), encoder(encoder.input)
    outputs = {}
    if MLM_LOGITS in heads:
        inputs[MASK_POSITIONS] = keras.Input(shape=(None,), dtype="int32", name=MASK_POSITIONS)
        outputs[MLM_LOGITS] = heads[MLM_LOGITS](encoded["sequence_output"], inputs[MASK_POSITIONS])
    if NSP_LOGITS in heads:
        outputs[NSP_LOGITS] = heads[NSP_LOGITS](encoded["pooled_output"])
    return inputs, outputs
