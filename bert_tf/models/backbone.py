"""The encoder.

Shape legend: B batch, S sequence, H hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import keras_hub

from bert_tf.config import BertConfig, ConfigError, from_dict, to_dict
from bert_tf.data.schema import PADDING_MASK, SEGMENT_IDS, TOKEN_IDS
from bert_tf.layers.activations import activation_function
from bert_tf.layers.attention_mask import AttentionMask
from bert_tf.layers.embeddings import BertEmbeddings
from bert_tf.models.preset_model import PresetModel


@keras.saving.register_keras_serializable(package="bert_tf")
class BertBackbone(PresetModel):
    """The transformer encoder of BERT (arXiv 1810.04805, section 3).

    Args:
        config: the architecture; a mapping of its fields will do.
        dtype: a Keras dtype policy or its name, such as `mixed_bfloat16`; the global one when `None`.
        name: of the model.
        **kwargs: `trainable`.

    Call arguments:
        inputs: dictionary of `token_ids`, `segment_ids` and `padding_mask` (1 where there is a token), all
            (B, S) int32, S at most `config.max_sequence_length`.

    Returns:
        Dictionary of `sequence_output` (B, S, H) and `pooled_output` (B, H), the tanh projection of the first
        token's output.

    Raises:
        ValueError: when S is larger than `config.max_sequence_length`.
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any],
        dtype: Any = None,
        name: str = "bert_backbone",
        **kwargs: Any,
    ) -> None:
        if not isinstance(config, BertConfig):
            config = from_dict(BertConfig, config, f"config of `{name}`")
        policy = keras.dtype_policies.get(dtype)
        inputs = {
            key: keras.Input(shape=(None,), dtype="int32", name=key) for key in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)
        }
        embeddings = _embeddings(config, policy)
        attention_mask = AttentionMask(config.attention == "left_to_right", dtype=policy, name="attention_mask")(
            inputs[PADDING_MASK]
        )
        hidden = embeddings(inputs[TOKEN_IDS], inputs[SEGMENT_IDS])
        outputs = {"embeddings": hidden}
        for number in range(1, config.num_layers + 1):
            layer = _transformer_layer(config, policy, name=f"layer_{number}")
            hidden = layer(hidden, attention_mask=attention_mask)
            outputs[layer.name] = hidden
        pooler = keras.layers.Dense(
            config.hidden_dim,
            activation="tanh",
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
            dtype=policy,
            name="pooler",
        )
        super().__init__(
            inputs=inputs,
            outputs={"sequence_output": hidden, "pooled_output": pooler(hidden[:, 0])},
            name=name,
            **kwargs,
        )
        self.dtype_policy = policy
        self._config = config
        self._layer_outputs = outputs

    @property
    def config(self) -> BertConfig:
        """The architecture."""
        return self._config

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """The embedding of the vocabulary, which the masked language model's output is tied to."""
        return self.get_layer("embeddings").token_embedding

    @property
    def layer_outputs(self) -> dict[str, keras.KerasTensor]:
        """Symbolic outputs by name, each (B, S, H): `embeddings`, then `layer_1` to `layer_L`."""
        return dict(self._layer_outputs)

    def features(self, layers: Iterable[str]) -> keras.Model:
        """Returns a model, sharing all weights, from this one's inputs to the outputs of `layers`.

        Args:
            layers: names of `layer_outputs`.

        Returns:
            A model whose output is a dictionary of (B, S, H) tensors by layer name.

        Raises:
            ConfigError: for an unknown name, or none at all.
        """
        names = list(layers)
        unknown = [name for name in names if name not in self._layer_outputs]
        if unknown or not names:
            raise ConfigError(f"`layers` must name some of {', '.join(self._layer_outputs)}. Received: {names}")
        return keras.Model(self.input, {name: self._layer_outputs[name] for name in names}, name="features")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, the architecture as a dictionary."""
        return {
            "config": to_dict(self.config),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertBackbone:
        """Builds the model from what `get_config` gave."""
        return cls(**config)


def _embeddings(config: BertConfig, policy: keras.DTypePolicy) -> BertEmbeddings:
    return BertEmbeddings(
        vocabulary_size=config.vocabulary_size,
        hidden_dim=config.hidden_dim,
        max_sequence_length=config.max_sequence_length,
        num_segments=config.num_segments,
        dropout=config.dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        dtype=policy,
        name="embeddings",
    )


def _transformer_layer(config: BertConfig, policy: keras.DTypePolicy, name: str) -> keras_hub.layers.TransformerEncoder:
    return keras_hub.layers.TransformerEncoder(
        intermediate_dim=config.intermediate_dim,
        num_heads=config.num_heads,
        dropout=config.dropout,
        activation=activation_function(config.activation),
        layer_norm_epsilon=config.layer_norm_epsilon,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        dtype=policy,
        name=name,
    )
