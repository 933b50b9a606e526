"""BERT encoder with start and end logits for every token.

Shape legend: B batch, S sequence.
"""

from __future__ import annotations

from typing import Any

from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.models.base import TaskModel, logits
from bert_tf.models.bilstm_encoder import Encoder
from bert_tf.models.kinds import Head, register_model


@register_model(
    signatures="bert_tf.export.kinds.spans:SpanSignatures",
    head=Head("question_answering", prefix="cls/squad/", outputs=2),
)
class BertSpanPredictor(TaskModel):
    """Predicts the start and end of an answer span (arXiv 1810.04805, section 4.2).

    Args:
        backbone: the encoder.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.

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

    def __init__(self, backbone: Encoder, name: str = "bert_span_predictor", **kwargs: Any) -> None:
        scores = logits(backbone, backbone(backbone.input)["sequence_output"], 2, dropout=0.0)
        outputs = {START_LOGITS: scores[..., 0], END_LOGITS: scores[..., 1]}
        super().__init__(backbone, backbone.input, outputs, {}, name, **kwargs)
