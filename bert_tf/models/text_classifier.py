"""The encoder with one dense layer on one vector for the whole row.

Shape legend: B batch, S sequence, C classes.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.data.schema import PADDING_MASK
from bert_tf.layers.pooling import TokenPooling
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.task_model import TaskModel, check_classes, logits, pooled

# Where the vector of a row comes from.
POOLINGS = ("first", "mean", "max", "last")


@keras.saving.register_keras_serializable(package="bert_tf")
class BertTextClassifier(TaskModel):
    """Classification of one or two texts (arXiv 1810.04805, section 4.1).

    Args:
        backbone: the encoder, with a pooler where `pooling` is `first`.
        num_classes: C; 1 for a regression.
        dropout: rate on the vector of a row while training.
        pooling: that vector: `first`, the pooled output, which the pooler makes of [CLS]; `mean` or `max` over what the
            encoder gives for all tokens of the row, or what it gives for the `last` of them, which alone knows the
            whole row where attention is from left to right.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's.

    Returns:
        Logits, (B, C), computed in float32 whatever the dtype policy.

    Raises:
        ConfigError: for fewer than one class, a rate outside [0, 1), another pooling, or an encoder without pooler
            where one is needed.
    """

    num_classes: int
    dropout: float
    pooling: str

    def __init__(
        self,
        backbone: BertBackbone,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str = "first",
        name: str = "bert_text_classifier",
        **kwargs: Any,
    ) -> None:
        check_classes(num_classes)
        features = _features(backbone, pooling)
        outputs = logits(backbone, features, num_classes, dropout)
        arguments = {"num_classes": num_classes, "dropout": dropout, "pooling": pooling}
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)


def _features(backbone: BertBackbone, pooling: str) -> Any:
    if pooling not in POOLINGS:
        raise ConfigError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: {pooling!r}")
    encoded = backbone(backbone.input)
    if pooling == "first":
        return pooled(encoded)
    layer = TokenPooling(pooling, dtype=backbone.dtype_policy, name="token_pooling")
    return layer(encoded["sequence_output"], backbone.input[PADDING_MASK])
