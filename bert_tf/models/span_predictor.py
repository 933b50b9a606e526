"""The encoder with a start and an end score for every token.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.task_model import TaskModel, logits


@keras.saving.register_keras_serializable(package="bert_tf")
class BertSpanPredictor(TaskModel):
    """Where an answer starts and ends (arXiv 1810.04805, section 4.2).

    Args:
        backbone: the encoder.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Dictionary of `start_logits` and `end_logits`, (B, S) each, computed in float32 whatever the dtype policy.
        Those of padding mean nothing.
    """

    def __init__(self, backbone: BertBackbone, name: str = "bert_span_predictor", **kwargs: Any) -> None:
        scores = logits(backbone, backbone(backbone.input)["sequence_output"], 2, dropout=0.0)
        outputs = {START_LOGITS: scores[..., 0], END_LOGITS: scores[..., 1]}
        super().__init__(backbone, backbone.input, outputs, {}, name, **kwargs)
