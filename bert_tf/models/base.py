"""Base classes of models, and the parts that task models share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import keras

from bert_tf.config import ConfigError
from bert_tf.layers.activations import activation_function
from bert_tf.layers.base import SETTINGS, changed_settings, restore_settings
from bert_tf.layers.normalization import LayerNormalization
from bert_tf.models import presets
from bert_tf.text.vocabulary import Vocabulary


class PresetModel(keras.Model):
    """A functional model that is saved to and loaded from a preset directory (see `presets`)."""

    @classmethod
    def from_preset(cls, directory: str | Path, dtype: Any = None) -> Self:
        """Loads a model of this class.

        Args:
            directory: preset directory, output directory of a run, `RUN@STEP`, or checkpoint of another program; see
                `load_preset`. A `BertBackbone` can be loaded from a preset of any kind; other models require a preset
                of their own kind.
            dtype: Keras dtype policy or its name; defaults to the global policy.

        Returns:
            The model.

        Raises:
            ConfigError: if the directory is not a preset, or a preset of another kind.
        """
        load = presets.load_backbone if cls.__name__ == "BertBackbone" else presets.load_preset
        preset = load(directory, dtype)
        if preset.kind != cls.__name__:
            raise ConfigError(f"{directory}: expected a preset of a {cls.__name__}. Received: {preset.kind}")
        return preset.model

    def save_to_preset(
        self,
        directory: str | Path,
        vocabulary: Vocabulary,
        lowercase: bool = True,
        task: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Saves the model as a preset; see `presets.save_preset`.

        Args:
            directory: output directory, which must be missing, empty or a preset.
            vocabulary: vocabulary of the same size as the model's token embedding.
            lowercase: whether the tokenizer lower-cases.
            task: content of task.json; no file is written if None.
            info: additional information that JSON can represent.

        Raises:
            ConfigError: if the vocabulary does not match the model, or `directory` contains other files.
        """
        presets.save_preset(self, directory, vocabulary, lowercase, task, info)


class TaskModel(PresetModel):
    """A functional model on an encoder.

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
        backbone: Any,
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
        """Returns the constructor's arguments, with the encoder serialized, and changed settings of layers."""
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            **self._arguments,
            "name": self.name,
            "trainable": self.trainable,
            **changed_settings(self, without=[self.backbone]),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Builds the model from the result of `get_config`."""
        arguments = {name: value for name, value in config.items() if name != SETTINGS}
        model = cls(**(arguments | {"backbone": keras.saving.deserialize_keras_object(config["backbone"])}))
        restore_settings(model, config, without=[model.backbone])
        return model


def check_at_least_one(name: str, value: int) -> None:
    """Raises ConfigError with the argument's name for a value below 1."""
    if value < 1:
        raise ConfigError(f"`{name}` must be at least 1. Received: {value}")


def check_dropout(rate: float) -> None:
    """Raises ConfigError for a dropout rate outside [0, 1)."""
    if not 0.0 <= rate < 1.0:
        raise ConfigError(f"`dropout` must be in [0, 1). Received: {rate}")


def pooled(backbone: Any, outputs: Mapping[str, Any]) -> Any:
    """Returns the pooled output, or without one the first output token of the body `modern`, whose heads transform it.

    Raises ConfigError for an encoder of another body without pooler.
    """
    if "pooled_output" in outputs:
        return outputs["pooled_output"]
    if backbone.config.heads_need_pooler:
        raise ConfigError("a text-level model needs an encoder with `pooler` = True. Received: False")
    return outputs["sequence_output"][:, 0]


def logits(backbone: Any, features: Any, units: int, dropout: float) -> Any:
    """Applies dropout and a dense layer to `features`; for the body `modern`, a transform before them.

    The transform of ModernBERT's heads is a dense layer, the encoder's activation and a normalization.

    Args:
        backbone: encoder that provides the dtype policy, the initializer range and the body.
        features: symbolic features.
        units: number of logits.
        dropout: dropout rate.

    Returns:
        Symbolic logits, float32 under any dtype policy.

    Raises:
        ConfigError: for a dropout rate outside [0, 1).
    """
    check_dropout(dropout)
    config, policy = backbone.config, backbone.dtype_policy
    if not config.heads_need_pooler:
        transform = keras.layers.Dense(
            config.hidden_dim,
            activation=activation_function(config.activation),
            use_bias=config.biases,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
            dtype=policy,
            name="head_dense",
        )
        norm = LayerNormalization(
            epsilon=config.layer_norm_epsilon, center=config.normalization_bias, dtype=policy, name="head_layer_norm"
        )
        features = norm(transform(features))
    features = keras.layers.Dropout(dropout, dtype=backbone.dtype_policy, name="head_dropout")(features)
    dense = keras.layers.Dense(
        units,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        dtype="float32",
        name="logits",
    )
    return dense(features)
