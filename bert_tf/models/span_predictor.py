"""BERT encoder with start and end logits for every token.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bert_tf.data.schema import END_LOGITS, PADDING_MASK, START_LOGITS
from bert_tf.layers.pooling import without_padding
from bert_tf.models.base import logits
from bert_tf.models.bilstm_encoder import Encoder
from bert_tf.models.kinds import Head, register_model
from bert_tf.models.task_model import TextTaskModel


@register_model(
    head=Head("question_answering", prefix="cls/squad/", outputs=2),
)
class BertSpanPredictor(TextTaskModel):
    """Predicts the start and end of an answer span (arXiv 1810.04805, section 4.2).

    Args:
        backbone: the encoder.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`, and `preprocessor`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Dictionary of `start_logits` and `end_logits`, (B, S) each, computed in float32 under any dtype policy.
        Logits at padding positions are undefined.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> ids = np.array([[2, 5, 3, 6, 7, 3]])  # [CLS] question [SEP] context [SEP]
        >>> inputs = {"token_ids": ids, "segment_ids": np.array([[0, 0, 0, 1, 1, 1]]), "padding_mask": 1 * (ids > 0)}
        >>> {name: keras.ops.shape(value) for name, value in bert_tf.BertSpanPredictor(backbone)(inputs).items()}
        {'start_logits': (1, 6), 'end_logits': (1, 6)}
    """

    objective: ClassVar[str] = "spans"

    def __init__(self, backbone: Encoder, name: str = "bert_span_predictor", **kwargs: Any) -> None:
        scores = logits(backbone, backbone(backbone.input)["sequence_output"], 2, dropout=0.0)
        outputs = {START_LOGITS: scores[..., 0], END_LOGITS: scores[..., 1]}
        super().__init__(backbone, backbone.input, outputs, {}, name, **kwargs)

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        from bert_tf.models.preprocessors.spans import BertSpanPreprocessor

        return BertSpanPreprocessor

    def predict_answers(self, x: Any) -> list[str]:
        """Returns the best answer to each question, over all windows of its context; "" for no answer.

        Args:
            x: questions and contexts as documented for `BertSpanPreprocessor`.

        Raises:
            ConfigError: if the model has no preprocessor.
        """
        return self.required_preprocessor().predict_answers(self, x)

    def calibrate(self, x: Any, y: Any) -> float:
        """Sets the threshold of no answer to that of the best F1 on a development set, as `bert-tf finetune squad2`.

        `predict_answers`, `save_to_preset` and exports of the preset use the threshold.

        Args:
            x: questions and contexts as documented for `BertSpanPreprocessor`.
            y: answers, some of which are empty texts.

        Returns:
            The threshold: the largest score of no answer, minus that of the best answer, at which there is an answer.

        Raises:
            ConfigError: if the model has no preprocessor, or all questions of its training have an answer.
        """
        return self.required_preprocessor().calibrate(self, x, y)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Returns the loss; padding is no candidate."""
        y_pred = _lowered(x, y_pred)
        return super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the metrics; padding is no candidate."""
        y_pred = _lowered(x, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)


def _lowered(inputs, outputs):
    """Returns the logits, lowered at padding if the inputs are known."""
    if inputs is None:
        return outputs
    return {name: without_padding(values, inputs[PADDING_MASK]) for name, values in outputs.items()}
