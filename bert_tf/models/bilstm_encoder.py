"""BERT encoder followed by a BiLSTM, which task models use like a plain encoder.

Shape legend: B batch, S sequence, D units per direction.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config import BertConfig
from bert_tf.data.schema import PADDING_MASK
from bert_tf.layers.bilstm import BiLSTM
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.base import TaskModel, check_at_least_one
from bert_tf.models.bilstm_tagger import BILSTM_DIM


@keras.saving.register_keras_serializable(package="bert_tf")
class BertBiLSTMEncoder(TaskModel):
    """BERT encoder and a BiLSTM, trained together: "+ BiLSTM" in Table 5 of arXiv 1810.04805.

    It is intended for `left_to_right` encoders, in which tokens do not attend to later tokens. The paper does not
    specify the representation of a whole text; this model uses the two final states of the BiLSTM, which depend on all
    tokens.

    Args:
        backbone: the encoder; a pooler is not required.
        bilstm_dim: D.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Dictionary of `sequence_output` (B, S, 2 D) and `pooled_output` (B, 2 D), the final states of the forward and
        backward LSTM.

    Raises:
        ConfigError: for fewer than one unit.

    Example:
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=100, attention="left_to_right")
        >>> encoder = bert_tf.BertBiLSTMEncoder(bert_tf.BertBackbone(config), bilstm_dim=8)
        >>> model = bert_tf.BertTextClassifier(encoder, num_classes=2)
        >>> ids = np.array([[2, 5, 6, 3]])
        >>> keras.ops.shape(model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}))
        (1, 2)
    """

    bilstm_dim: int

    def __init__(
        self, backbone: BertBackbone, bilstm_dim: int = BILSTM_DIM, name: str = "bert_bilstm_encoder", **kwargs: Any
    ) -> None:
        check_at_least_one("bilstm_dim", bilstm_dim)
        encoded = backbone(backbone.input)["sequence_output"]
        bilstm = BiLSTM(bilstm_dim, dtype=backbone.dtype_policy, name="encoder_bilstm")
        hidden, states = bilstm(encoded, backbone.input[PADDING_MASK])
        outputs = {"sequence_output": hidden, "pooled_output": states}
        super().__init__(backbone, backbone.input, outputs, {"bilstm_dim": bilstm_dim}, name, **kwargs)

    @property
    def config(self) -> BertConfig:
        """Architecture of the encoder."""
        return self.backbone.config


Encoder = BertBackbone | BertBiLSTMEncoder
