"""BERT encoder with one dense layer on a pooled vector per row.

Shape legend: B batch, S sequence, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import keras

from bert_tf.config import ConfigError
from bert_tf.config.model import POOLINGS
from bert_tf.data.schema import PADDING_MASK
from bert_tf.layers.pooling import TokenPooling
from bert_tf.models.base import check_at_least_one, logits, pooled
from bert_tf.models.bilstm_encoder import Encoder
from bert_tf.models.kinds import Head, register_model
from bert_tf.models.presets import Preset
from bert_tf.models.task_model import TextTaskModel
from bert_tf.models.weights import copy_weights


@register_model(head=Head("sequence_classification", prefix=""))
class BertTextClassifier(TextTaskModel):
    """Classifies single texts or text pairs (arXiv 1810.04805, section 4.1).

    Args:
        backbone: the encoder; requires a pooler if `pooling` is `first`.
        num_classes: C; 1 for regression.
        dropout: dropout rate on the pooled vector.
        pooling: `first` uses the pooler's output for [CLS]; `mean` and `max` pool the outputs of all tokens; `last`
            uses the output of the last token, the only one that sees the whole row in left-to-right models.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`, and `preprocessor`.

    Call arguments:
        inputs: dictionary of the encoder's inputs.

    Returns:
        Logits, (B, C), computed in float32 under any dtype policy.

    Raises:
        ConfigError: for fewer than one class, a dropout rate outside [0, 1), an unknown pooling, or a missing pooler.

    Example:
        >>> model = bert_tf.BertTextClassifier.from_preset("runs/laptop", num_classes=2)
        >>> history = model.fit(["a good film", "a dull film"], ["good", "bad"], epochs=2, verbose=0)
        >>> model.predict(["a good story"], verbose=0).shape
        (1, 2)
        >>> ids = np.array([[2, 5, 6, 3], [2, 7, 3, 0]])
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)}
        >>> keras.ops.shape(model(inputs))
        (2, 2)
    """

    num_classes: int
    dropout: float
    pooling: str

    def __init__(
        self,
        backbone: Encoder,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str = "first",
        name: str = "bert_text_classifier",
        **kwargs: Any,
    ) -> None:
        check_at_least_one("num_classes", num_classes)
        features = _features(backbone, pooling)
        outputs = logits(backbone, features, num_classes, dropout)
        arguments = {"num_classes": num_classes, "dropout": dropout, "pooling": pooling}
        super().__init__(backbone, backbone.input, outputs, arguments, name, **kwargs)

    @classmethod
    def preprocessor_class(cls) -> Any:
        """Returns the class of the preprocessor, which needs TensorFlow."""
        from bert_tf.models.preprocessors.text import BertTextPreprocessor

        return BertTextPreprocessor

    def predict_labels(self, x: Any) -> list[Any]:
        """Returns the most probable class of each text: its name if the preprocessor has `labels`, or its number.

        Args:
            x: texts as documented for `BertTextPreprocessor`, or token ids. For regression, the result has numbers.
        """
        if self._takes(x):
            return self.preprocessor.predict_labels(self, x)
        outputs = self.predict(x, verbose=0)
        if self.num_classes == 1:
            return outputs[:, 0].tolist()
        labels = None if self.preprocessor is None else self.preprocessor.labels
        return [labels[number] if labels else number for number in outputs.argmax(axis=-1).tolist()]

    @classmethod
    def _kept(cls, preset: Preset, arguments: Mapping[str, Any]) -> Self | None:
        """Returns the model of a preset; one of standardized numbers is rescaled to the numbers themselves."""
        model, task = super()._kept(preset, arguments), preset.task or {}
        if model is not None and "deviation" in task:
            kernel, bias = model.get_layer("logits").get_weights()
            weights = [kernel * task["deviation"], bias * task["deviation"] + task["mean"]]
            model.get_layer("logits").set_weights(weights)
        return model

    def _stored(self) -> keras.Model:
        """Returns the model that a preset holds: one of standardized numbers if the task has their scale."""
        task = {} if self.preprocessor is None else self.preprocessor.task
        if "deviation" not in task or self.num_classes != 1 or self.preprocessor.labels:
            return self
        model = type(self)(self.backbone, **self._arguments)
        copy_weights(self, model)
        kernel, bias = self.get_layer("logits").get_weights()
        model.get_layer("logits").set_weights([kernel / task["deviation"], (bias - task["mean"]) / task["deviation"]])
        return model

    def _objective(self) -> str:
        return "regression" if self.num_classes == 1 else "classification"

    @classmethod
    def _adapted(cls, attention: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # In left-to-right encoders, the first token sees no other.
        return ({"pooling": "last"} if attention == "left_to_right" else {}) | dict(arguments)

    @classmethod
    def _needs_pooler(cls, arguments: Mapping[str, Any]) -> bool:
        return arguments.get("pooling", "first") == "first"


def _features(backbone: Encoder, pooling: str) -> Any:
    if pooling not in POOLINGS:
        raise ConfigError(f"`pooling` must be one of {', '.join(POOLINGS)}. Received: {pooling!r}")
    encoded = backbone(backbone.input)
    if pooling == "first":
        return pooled(backbone, encoded)
    layer = TokenPooling(pooling, dtype=backbone.dtype_policy, name="token_pooling")
    return layer(encoded["sequence_output"], backbone.input[PADDING_MASK])
