"""The encoder with one dense layer on its pooled output.

Shape legend: B batch, S sequence, C classes.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.preset_model import PresetModel


@keras.saving.register_keras_serializable(package="bert_tf")
class BertTextClassifier(PresetModel):
    """Classification of one or two texts (arXiv 1810.04805, section 4.1).

    Args:
        backbone: the encoder.
        num_classes: C; 1 for a regression.
        dropout: rate on the pooled output while training.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Logits, (B, C), computed in float32 whatever the dtype policy.

    Raises:
        ConfigError: for fewer than one class or a rate outside [0, 1).
    """

    def __init__(
        self,
        backbone: BertBackbone,
        num_classes: int,
        dropout: float = 0.1,
        name: str = "bert_text_classifier",
        **kwargs: Any,
    ) -> None:
        if num_classes < 1:
            raise ConfigError(f"`num_classes` must be at least 1. Received: {num_classes}")
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"`dropout` must be in [0, 1). Received: {dropout}")
        pooled = backbone(backbone.input)["pooled_output"]
        pooled = keras.layers.Dropout(dropout, dtype=backbone.dtype_policy, name="pooled_dropout")(pooled)
        dense = keras.layers.Dense(
            num_classes,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=backbone.config.initializer_range),
            dtype="float32",
            name="logits",
        )
        super().__init__(inputs=backbone.input, outputs=dense(pooled), name=name, **kwargs)
        self.dtype_policy = backbone.dtype_policy
        self.backbone = backbone
        self.num_classes = num_classes
        self.dropout = dropout

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, the encoder serialized."""
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertTextClassifier:
        """Builds the model from what `get_config` gave."""
        return cls(**(config | {"backbone": keras.saving.deserialize_keras_object(config["backbone"])}))
