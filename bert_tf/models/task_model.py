"""Base class of task models: one dense layer on the outputs of the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.models.backbone import BertBackbone
from bert_tf.models.preset_model import PresetModel


class TaskModel(PresetModel):
    """A BERT encoder followed by dropout and a dense layer.

    Args:
        backbone: the encoder.
        inputs: symbolic inputs of the model by name.
        outputs: symbolic outputs.
        arguments: constructor arguments of the subclass except `backbone` and `name`; set as attributes of the model.
        name: model name.
        **kwargs: arguments of `keras.Model`, such as `trainable`.
    """

    def __init__(
        self,
        backbone: BertBackbone,
        inputs: Mapping[str, Any],
        outputs: Any,
        arguments: Mapping[str, Any],
        name: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs=dict(inputs), outputs=outputs, name=name, **kwargs)
        self.dtype_policy = backbone.dtype_policy
        self.backbone = backbone
        self._arguments = dict(arguments)
        for key, value in arguments.items():
            setattr(self, key, value)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the encoder serialized."""
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            **self._arguments,
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TaskModel:
        """Builds the model from the result of `get_config`."""
        return cls(**(config | {"backbone": keras.saving.deserialize_keras_object(config["backbone"])}))


def check_classes(num_classes: int) -> None:
    """Raises ConfigError for fewer than one class."""
    if num_classes < 1:
        raise ConfigError(f"`num_classes` must be at least 1. Received: {num_classes}")


def pooled(outputs: Mapping[str, Any]) -> Any:
    """Returns the pooled output. Raises ConfigError for an encoder without pooler."""
    if "pooled_output" not in outputs:
        raise ConfigError("a text-level model needs an encoder with `pooler` = True. Received: False")
    return outputs["pooled_output"]


def logits(backbone: BertBackbone, features: Any, units: int, dropout: float) -> Any:
    """Applies dropout and a dense layer to `features`.

    Args:
        backbone: encoder that provides the dtype policy of the dropout and the initializer range.
        features: symbolic features.
        units: number of logits.
        dropout: dropout rate.

    Returns:
        Symbolic logits, float32 under any dtype policy.

    Raises:
        ConfigError: for a dropout rate outside [0, 1).
    """
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"`dropout` must be in [0, 1). Received: {dropout}")
    features = keras.layers.Dropout(dropout, dtype=backbone.dtype_policy, name="head_dropout")(features)
    dense = keras.layers.Dense(
        units,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=backbone.config.initializer_range),
        dtype="float32",
        name="logits",
    )
    return dense(features)
