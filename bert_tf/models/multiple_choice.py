"""BERT encoder with one score per choice.

Shape legend: B batch, N choices, S sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from bert_tf.layers.choices import FoldChoices, UnfoldChoices
from bert_tf.models.base import logits, pooled
from bert_tf.models.bilstm_encoder import Encoder
from bert_tf.models.kinds import Head, register_model
from bert_tf.models.task_model import TextTaskModel


@register_model(
    head=Head("multiple_choice", prefix="cls/choice/", outputs=1),
)
class BertMultipleChoice(TextTaskModel):
    """Multiple choice model (arXiv 1810.04805, section 4.4), which scores each pair of text and choice separately.

    Args:
        backbone: the encoder, with a pooler.
        dropout: dropout rate on the pooled output.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`, and `preprocessor`.

    Call arguments:
        inputs: dictionary of the encoder's inputs, each (B, N, S).

    Returns:
        Logits over the choices, (B, N), computed in float32 under any dtype policy.

    Raises:
        ConfigError: for a dropout rate outside [0, 1) or an encoder without pooler.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> ids = np.array([[[2, 5, 3, 6, 3], [2, 5, 3, 7, 3], [2, 5, 3, 8, 3]]])  # one text, three choices
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids + [0, 0, 0, 1, 1], "padding_mask": 1 * (ids > 0)}
        >>> keras.ops.shape(bert_tf.BertMultipleChoice(backbone)(inputs))
        (1, 3)
    """

    objective: ClassVar[str] = "classification"

    dropout: float

    def __init__(
        self, backbone: Encoder, dropout: float = 0.1, name: str = "bert_multiple_choice", **kwargs: Any
    ) -> None:
        inputs = {key: keras.Input(shape=(None, None), dtype="int32", name=key) for key in backbone.input}
        fold = FoldChoices(name="fold_choices")
        encoded = backbone({key: fold(tensor) for key, tensor in inputs.items()})
        scores = logits(backbone, pooled(backbone, encoded), 1, dropout)
        outputs = UnfoldChoices(name="unfold_choices")(scores, next(iter(inputs.values())))
        super().__init__(backbone, inputs, outputs, {"dropout": dropout}, name, **kwargs)

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        from bert_tf.models.preprocessors.choices import BertChoicePreprocessor

        return BertChoicePreprocessor

    def predict_labels(self, x: Any) -> list[int]:
        """Returns the number of the most probable choice of each text.

        Args:
            x: texts and choices as documented for `BertChoicePreprocessor`, or token ids.
        """
        if self._takes(x):
            return self.preprocessor.predict_labels(self, x)
        return self.predict(x, verbose=0).argmax(axis=-1).tolist()

    @classmethod
    def _needs_pooler(cls, arguments: Mapping[str, Any]) -> bool:
        return True
