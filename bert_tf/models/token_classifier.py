"""BERT encoder with one dense layer on the output of every token.

Shape legend: B batch, S sequence, C classes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bert_tf.models.base import check_at_least_one, logits
from bert_tf.models.bilstm_encoder import Encoder
from bert_tf.models.kinds import Head, register_model
from bert_tf.models.task_model import TextTaskModel


@register_model(head=Head("token_classification", prefix="cls/token/"))
class BertTokenClassifier(TextTaskModel):
    """Classifies every token, for example for named entities (arXiv 1810.04805, section 5.3).

    Args:
        backbone: the encoder.
        num_classes: C.
        dropout: dropout rate on the encoder's output.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`, and `preprocessor`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Logits, (B, S, C), computed in float32 under any dtype policy.

    Raises:
        ConfigError: for fewer than one class or a dropout rate outside [0, 1).

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> model = bert_tf.BertTokenClassifier(backbone, num_classes=9)
        >>> ids = np.array([[2, 5, 6, 3]])
        >>> keras.ops.shape(model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}))
        (1, 4, 9)
    """

    objective: ClassVar[str] = "token_classification"

    num_classes: int
    dropout: float

    def __init__(
        self,
        backbone: Encoder,
        num_classes: int,
        dropout: float = 0.1,
        name: str = "bert_token_classifier",
        **kwargs: Any,
    ) -> None:
        check_at_least_one("num_classes", num_classes)
        features = backbone(backbone.input)["sequence_output"]
        outputs = logits(backbone, features, num_classes, dropout)
        arguments = {"num_classes": num_classes, "dropout": dropout}
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        from bert_tf.models.preprocessors.words import BertWordPreprocessor

        return BertWordPreprocessor

    def predict_labels(self, x: Any) -> list[list[Any]]:
        """Returns the most probable class of each word: its name if the preprocessor has `labels`, or its number.

        Args:
            x: sentences as documented for `BertWordPreprocessor`.

        Raises:
            ConfigError: if the model has no preprocessor.
        """
        return self.required_preprocessor().predict_labels(self, x)
