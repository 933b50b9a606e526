"""The encoder with one score for each of several choices.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

from typing import Any

import keras

from bert_tf.layers.choices import FoldChoices, UnfoldChoices
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.task_model import TaskModel, logits, pooled


@keras.saving.register_keras_serializable(package="bert_tf")
class BertMultipleChoice(TaskModel):
    """The choice among continuations (arXiv 1810.04805, section 4.4): each makes a pair with the text, scored alone.

    Args:
        backbone: the encoder, with a pooler.
        dropout: rate on the pooled output while training.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: the encoder's, each (B, N, S).

    Returns:
        Logits over the choices, (B, N), computed in float32 whatever the dtype policy.

    Raises:
        ConfigError: for a rate outside [0, 1) or an encoder without pooler.
    """

    dropout: float

    def __init__(
        self, backbone: BertBackbone, dropout: float = 0.1, name: str = "bert_multiple_choice", **kwargs: Any
    ) -> None:
        inputs = {key: keras.Input(shape=(None, None), dtype="int32", name=key) for key in backbone.input}
        fold = FoldChoices(name="fold_choices")
        encoded = backbone({key: fold(tensor) for key, tensor in inputs.items()})
        scores = logits(backbone, pooled(encoded), 1, dropout)
        outputs = UnfoldChoices(name="unfold_choices")(scores, next(iter(inputs.values())))
        super().__init__(backbone, inputs, outputs, {"dropout": dropout}, name, **kwargs)
