"""The encoder with both heads of pre-training.

Shape legend: B batch, S sequence, P predictions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.data.schema import MASK_POSITIONS, MLM_LOGITS, NSP_LOGITS
from bert_tf.layers.pretraining_heads import MaskedLMHead, NextSentenceHead
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.preset_model import PresetModel


@keras.saving.register_keras_serializable(package="bert_tf")
class BertPretrainer(PresetModel):
    """Masked language model and next sentence prediction (arXiv 1810.04805, section 3.1).

    Args:
        backbone: the encoder; the heads take its dtype policy.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's, and `mask_positions` (B, P) int32 in [0, S).

    Returns:
        Dictionary of `mlm_logits` (B, P, V) and `nsp_logits` (B, 2), both float32.
    """

    def __init__(self, backbone: BertBackbone, name: str = "bert_pretrainer", **kwargs: Any) -> None:
        config, policy = backbone.config, backbone.dtype_policy
        inputs = dict(backbone.input)
        inputs[MASK_POSITIONS] = keras.Input(shape=(None,), dtype="int32", name=MASK_POSITIONS)
        encoded = backbone(backbone.input)
        masked_lm = MaskedLMHead(
            backbone.token_embedding,
            activation=config.activation,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            dtype=policy,
            name=MLM_LOGITS,
        )
        next_sentence = NextSentenceHead(config.initializer_range, dtype=policy, name=NSP_LOGITS)
        super().__init__(
            inputs=inputs,
            outputs={
                MLM_LOGITS: masked_lm(encoded["sequence_output"], inputs[MASK_POSITIONS]),
                NSP_LOGITS: next_sentence(encoded["pooled_output"]),
            },
            name=name,
            **kwargs,
        )
        self.dtype_policy = policy
        self.backbone = backbone

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, the encoder serialized."""
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertPretrainer:
        """Builds the model from what `get_config` gave."""
        return cls(**(config | {"backbone": keras.saving.deserialize_keras_object(config["backbone"])}))
