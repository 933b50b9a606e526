"""An encoder with a BiLSTM on top, which models of tasks take in the place of the encoder.

Shape legend: B batch, S sequence, D width of one direction.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK
from bert_tf.layers.bilstm import BiLSTM
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.bilstm_tagger import BILSTM_DIM, check_bilstm


@keras.saving.register_keras_serializable(package="bert_tf")
class BertBiLSTMEncoder(keras.Model):
    """The encoder and one BiLSTM on it, trained together: "+ BiLSTM" of arXiv 1810.04805, Table 5.

    It is meant for `left_to_right` encoders, whose tokens have not seen what follows them. The paper does not say how
    a whole text is read from it; here it is the two final states of the BiLSTM, as each has seen all of the text.

    Args:
        backbone: the encoder; it needs no pooler.
        bilstm_dim: D.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Dictionary of `sequence_output` (B, S, 2 D) and `pooled_output` (B, 2 D), the last forward and the first
        backward state.

    Raises:
        ConfigError: for a width below 1.
    """

    def __init__(
        self, backbone: BertBackbone, bilstm_dim: int = BILSTM_DIM, name: str = "bert_bilstm_encoder", **kwargs: Any
    ) -> None:
        check_bilstm(bilstm_dim, 0.0)
        encoded = backbone(backbone.input)["sequence_output"]
        bilstm = BiLSTM(bilstm_dim, dtype=backbone.dtype_policy, name="encoder_bilstm")
        hidden, states = bilstm(encoded, backbone.input[PADDING_MASK])
        outputs = {"sequence_output": hidden, "pooled_output": states}
        super().__init__(inputs=backbone.input, outputs=outputs, name=name, **kwargs)
        self.dtype_policy = backbone.dtype_policy
        self.backbone = backbone
        self.bilstm_dim = bilstm_dim

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.backbone.config

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, the encoder serialized."""
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "bilstm_dim": self.bilstm_dim,
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertBiLSTMEncoder:
        """Builds the model from what `get_config` gave."""
        return cls(**(config | {"backbone": keras.saving.deserialize_keras_object(config["backbone"])}))
