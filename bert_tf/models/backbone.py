"""The BERT encoder.

Shape legend: B batch, S sequence, H hidden, L layers, N heads; packed: R rows, M examples per row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, to_dict
from bert_tf.data.schema import EXAMPLE_IDS, FIRST_POSITIONS, PADDING_MASK, POSITION_IDS, SEGMENT_IDS, TOKEN_IDS
from bert_tf.layers.attention_pattern import AttentionPattern
from bert_tf.layers.base import SETTINGS, changed_settings, restore_settings
from bert_tf.layers.embeddings import BertEmbeddings
from bert_tf.layers.normalization import LayerNormalization
from bert_tf.layers.positions import RowsAt
from bert_tf.layers.transformer import AttentionWeights, TransformerLayer
from bert_tf.models.base import PresetModel
from bert_tf.models.kinds import register_model

# Name of a layer that not all bodies have.
_FINAL = "final_layer_norm"


@register_model(convertible=True)
class BertBackbone(PresetModel):
    """The transformer encoder of BERT (arXiv 1810.04805, section 3).

    Args:
        config: architecture, or a mapping of its fields; None if keyword arguments are the fields.
        dtype: a Keras dtype policy or its name, such as `mixed_bfloat16`; the global one when `None`.
        name: model name.
        **kwargs: fields of `BertConfig`, such as `num_layers`, instead of `config`; and `trainable`.

    Call arguments:
        inputs: dictionary of `token_ids`, `segment_ids` and `padding_mask` (1 for tokens, 0 for padding), all
            (B, S) int32; S is at most `config.max_sequence_length`.

    Returns:
        Dictionary of `sequence_output` (B, S, H) and, if there is a pooler, `pooled_output` (B, H), the tanh projection
        of the first token's output.

    Raises:
        ConfigError: for `config` and fields, for neither, and for what `BertConfig` rejects.
        ValueError: if S exceeds `config.max_sequence_length`.

    Example:
        >>> backbone = bert_tf.BertBackbone(bert_tf.BertConfig.from_size("tiny", vocabulary_size=100))
        >>> ids = np.array([[2, 5, 6, 3], [2, 7, 3, 0]])
        >>> outputs = backbone({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 1 * (ids > 0)})
        >>> keras.ops.shape(outputs["sequence_output"]), keras.ops.shape(outputs["pooled_output"])
        ((2, 4, 128), (2, 128))
        >>> bert_tf.BertBackbone(vocabulary_size=100, hidden_dim=16, num_layers=2, num_heads=2).config.num_layers
        2
    """

    def __init__(
        self,
        config: BertConfig | Mapping[str, Any] | None = None,
        dtype: Any = None,
        name: str = "bert_backbone",
        **kwargs: Any,
    ) -> None:
        config, kwargs = _config_of(config, kwargs, name)
        policy = keras.dtype_policies.get(dtype)
        inputs = {
            key: keras.Input(shape=(None,), dtype="int32", name=key) for key in (TOKEN_IDS, SEGMENT_IDS, PADDING_MASK)
        }
        layers = _layers(config, policy)
        outputs = _encode(config, layers, inputs)
        hidden = list(outputs.values())[-1]
        pooled = {"pooled_output": layers["pooler"](hidden[:, 0])} if config.pooler else {}
        super().__init__(inputs=inputs, outputs={"sequence_output": hidden} | pooled, name=name, **kwargs)
        self._encoder_layers = layers
        self.dtype_policy = policy
        self._config = config
        self._layer_outputs = outputs

    @property
    def config(self) -> BertConfig:
        """Architecture of the encoder."""
        return self._config

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Token embedding, whose weights are tied to the output of the masked language model."""
        return self.get_layer("embeddings").token_embedding

    @property
    def layer_outputs(self) -> dict[str, keras.KerasTensor]:
        """Symbolic outputs by layer name, each (B, S, H): `embeddings`, then `layer_1` to `layer_L`."""
        return dict(self._layer_outputs)

    def features(self, layers: Iterable[str]) -> keras.Model:
        """Returns a model with shared weights that outputs the hidden states of `layers`.

        Args:
            layers: layer names, keys of `layer_outputs`.

        Returns:
            A model with the inputs of this model, whose output is a dictionary of (B, S, H) tensors by layer name.

        Raises:
            ConfigError: for an unknown name or no names.
        """
        names = list(layers)
        unknown = [name for name in names if name not in self._layer_outputs]
        if unknown or not names:
            raise ConfigError(f"`layers` must name some of {', '.join(self._layer_outputs)}. Received: {names}")
        return keras.Model(self.input, {name: self._layer_outputs[name] for name in names}, name="features")

    def attentions(self) -> keras.Model:
        """Returns a model with shared weights that outputs the attention weights.

        Returns:
            A model with the inputs of this model. Its output is a dictionary by layer name (`layer_1` to `layer_L`) of
            float32 (B, N, S, S) tensors: for each of N heads, the weights of a query position (third axis) over the key
            positions (fourth axis). The weights of a position sum to 1; weights of padding, and of later positions in
            left-to-right models, are 0.
        """
        layers, names = self._encoder_layers, list(self._layer_outputs)
        weights = {
            name: AttentionWeights(layers[name], name=f"{name}_weights")(
                self._layer_outputs[before], self.input[PADDING_MASK]
            )
            for before, name in itertools.pairwise(names)
        }
        return keras.Model(self.input, weights, name="attentions")

    def packed(self) -> keras.Model:
        """Returns a model with shared weights for packed rows of several examples (see `data.input.packing`).

        Returns:
            A model with the inputs `token_ids`, `segment_ids`, `padding_mask`, `example_ids`, `position_ids`, all
            (R, S) int32, and `first_positions` (R, M) int32. It outputs `sequence_output` (R, S, H) and, if there is a
            pooler, `pooled_output` (R, M, H). The outputs of each example are the same as in an unpacked row.
        """
        names = (*self.input, EXAMPLE_IDS, POSITION_IDS, FIRST_POSITIONS)
        inputs = {key: keras.Input(shape=(None,), dtype="int32", name=key) for key in names}
        hidden = list(_encode(self.config, self._encoder_layers, inputs).values())[-1]
        outputs = {"sequence_output": hidden}
        if self.config.pooler:
            firsts = RowsAt(dtype=self.dtype_policy, name="firsts")(hidden, inputs[FIRST_POSITIONS])
            outputs["pooled_output"] = self._encoder_layers["pooler"](firsts)
        return keras.Model(inputs, outputs, name="packed_backbone")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the architecture as a dictionary, and changed layer settings."""
        return {
            "config": to_dict(self.config),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
            **changed_settings(self),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertBackbone:
        """Builds the model from the result of `get_config`."""
        model = cls(**{name: value for name, value in config.items() if name != SETTINGS})
        restore_settings(model, config)
        return model


def _config_of(
    config: BertConfig | Mapping[str, Any] | None, arguments: Mapping[str, Any], name: str
) -> tuple[BertConfig, dict[str, Any]]:
    """Returns the architecture, from `config` or the keyword arguments of `BertBackbone`, and the other arguments."""
    known = {field.name for field in fields(BertConfig)}
    given = {key: value for key, value in arguments.items() if key in known or (config is None and key != "trainable")}
    if (config is None) == (not given):
        raise ConfigError(
            "`BertBackbone` needs either `config` or the fields of `BertConfig` as keyword arguments. Received: "
            f"{'neither' if config is None else '`config` and ' + ', '.join(f'`{key}`' for key in given)}. "
            'Pass `BertConfig.from_size("tiny", vocabulary_size=8000)`, which takes other fields, too.'
        )
    if not isinstance(config, BertConfig):
        config = from_dict(BertConfig, given if config is None else config, f"config of `{name}`")
    return config, {key: value for key, value in arguments.items() if key not in given}


def _layers(config: BertConfig, policy: keras.DTypePolicy) -> dict[str, keras.layers.Layer]:
    """Creates all layers; returns them by name, in order."""
    transformer = [_transformer_layer(config, policy, number) for number in range(1, config.num_layers + 1)]
    norm = LayerNormalization(
        epsilon=config.layer_norm_epsilon, center=config.normalization_bias, dtype=policy, name=_FINAL
    )
    last = [norm] if config.final_norm else []
    pooler = [_pooler(config, policy)] if config.pooler else []
    return {layer.name: layer for layer in (_embeddings(config, policy), *transformer, *last, *pooler)}


def _pooler(config: BertConfig, policy: keras.DTypePolicy) -> keras.layers.Dense:
    return keras.layers.Dense(
        config.hidden_dim,
        activation="tanh",
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        dtype=policy,
        name="pooler",
    )


def _encode(
    config: BertConfig, layers: Mapping[str, keras.layers.Layer], inputs: Mapping[str, Any]
) -> dict[str, keras.KerasTensor]:
    """Applies the layers to symbolic inputs; returns the (B, S, H) outputs of `embeddings`, `layer_1` to `layer_L`.

    The output of the last layer is normalized if the encoder has a final normalization.
    """
    hidden = layers["embeddings"](inputs[TOKEN_IDS], inputs[SEGMENT_IDS], inputs.get(POSITION_IDS))
    outputs = {"embeddings": hidden}
    rows = {"padding_mask": inputs[PADDING_MASK]}
    if EXAMPLE_IDS in inputs:
        rows["example_ids"] = inputs[EXAMPLE_IDS]
    if POSITION_IDS in inputs and config.positions == "rotary":
        rows["position_ids"] = inputs[POSITION_IDS]
    for name, layer in layers.items():
        if name.startswith("layer_"):
            outputs[name] = hidden = layer(hidden, **rows)
    if _FINAL in layers:
        outputs[f"layer_{config.num_layers}"] = layers[_FINAL](hidden)
    return outputs


def _embeddings(config: BertConfig, policy: keras.DTypePolicy) -> BertEmbeddings:
    return BertEmbeddings(
        vocabulary_size=config.vocabulary_size,
        hidden_dim=config.hidden_dim,
        max_sequence_length=config.max_sequence_length,
        num_segments=config.num_segments,
        dropout=config.dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        learned_positions=config.positions == "learned",
        normalizes=config.embedding_norm,
        normalization_bias=config.normalization_bias,
        dtype=policy,
        name="embeddings",
    )


def _transformer_layer(config: BertConfig, policy: keras.DTypePolicy, number: int) -> TransformerLayer:
    theta = config.rotary_theta if config.sees_all(number) else config.local_rotary_theta
    return TransformerLayer(
        num_heads=config.num_heads,
        intermediate_dim=config.intermediate_dim,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation=config.activation,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        normalization_order=config.normalization_order,
        normalizes_attention=number > 1 or not config.skips_first_norm,
        feed_forward=config.feed_forward,
        use_bias=config.biases,
        normalization_bias=config.normalization_bias,
        rotary_theta=theta if config.positions == "rotary" else None,
        **asdict(AttentionPattern.of(config, number)),
        dtype=policy,
        name=f"layer_{number}",
    )
