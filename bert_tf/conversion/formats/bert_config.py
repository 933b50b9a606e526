"""Reads and writes `bert_config.json`, the configuration of the original's and the Model Garden's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, ConfigError, save_json
from bert_tf.config.base import read_json_object
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.tensors import ConversionError

CONFIG_NAME = "bert_config.json"
LAYER_NORM_EPSILON = 1e-12
# The programs' defaults for missing keys.
_DEFAULTS: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 16,
    "initializer_range": 0.02,
}
# Both programs compute `gelu` with the tanh approximation.
_ACTIVATIONS = {"gelu": "gelu_approximate", "relu": "relu", "tanh": "tanh"}
# Keys of multilingual and Chinese releases that no program reads; two of them must have a fixed value.
_UNREAD = ("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head")
_FIXED: dict[str, tuple[Any, ...]] = {
    "directionality": ("bidi",),
    "pooler_type": ("first_token_transform",),
    "layer_norm_eps": (LAYER_NORM_EPSILON,),
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "backward_compatible": (True, False),
    "do_lower_case": (True, False),
}
# Keys of other architectures, which also use a file of this name.
_OTHERS = {
    "num_hidden_groups": "ALBERT",
    "inner_group_num": "ALBERT",
    "true_hidden_size": "MobileBERT",
    "use_bottleneck_attention": "MobileBERT",
    "max_relative_positions": "NEZHA",
    "max_relative_position": "NEZHA",
}


def read_config(path: Path) -> tuple[BertConfig, dict[str, Any]]:
    """Reads a `bert_config.json`.

    Args:
        path: path of the file.

    Returns:
        The architecture, and the other keys, which do not affect the computation.

    Raises:
        ConversionError: for an unknown key or an unsupported value; the message names it.
    """
    if not path.is_file():
        raise ConversionError(f"{path}: no such file. A TensorFlow checkpoint must have its configuration beside it.")
    try:
        mapping = read_json_object(path)
        _check(mapping, path)
        shape = {name: mapping.get(name, default) for name, default in _DEFAULTS.items()}
        for rate in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            shape[rate] = 0.0 if shape[rate] is None else shape[rate]
        activation = shape.pop("hidden_act").lower()
        config = BertConfig.from_mapping(
            {"vocab_size": mapping["vocab_size"], **shape, "activation": _ACTIVATIONS[activation]}, str(path)
        )
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    beside = {name: value for name, value in mapping.items() if name in _UNREAD or name in _FIXED}
    return config, beside


def write_config(checkpoint: Checkpoint, directory: Path, beside: Mapping[str, Any]) -> None:
    """Writes `bert_config.json`, with the keys of `beside` in it.

    Args:
        checkpoint: checkpoint to write.
        directory: directory to write to.
        beside: additional keys and values.

    Raises:
        ConversionError: if the programs cannot represent the encoder; the message names the field.
    """
    config = checkpoint.config
    names = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    rules: dict[str, tuple[Any, bool, str]] = {
        "activation": (config.activation, config.activation in names, f"one of {', '.join(names)}"),
        "layer_norm_epsilon": (
            config.layer_norm_epsilon,
            config.layer_norm_epsilon == LAYER_NORM_EPSILON,
            str(LAYER_NORM_EPSILON),
        ),
        "attention": (config.attention, config.attention == "bidirectional", "bidirectional"),
        "pooler": (config.pooler, config.pooler, "True, since the program always has a pooler"),
    }
    for field, (received, fits, rule) in rules.items():
        if not fits:
            raise ConversionError(
                f"{checkpoint.path}: {CONFIG_NAME} cannot represent this encoder: `{field}` must be {rule}. "
                f"Received: {received}"
            )
    attention = config.dropout if config.attention_dropout is None else config.attention_dropout
    values = {
        "attention_probs_dropout_prob": attention,
        "hidden_act": names[config.activation],
        "hidden_dropout_prob": config.dropout,
        "hidden_size": config.hidden_dim,
        "initializer_range": config.initializer_range,
        "intermediate_size": config.intermediate_dim,
        "max_position_embeddings": config.max_sequence_length,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.num_layers,
        "type_vocab_size": config.num_segments,
        "vocab_size": config.vocabulary_size,
    }
    save_json(dict(sorted((values | dict(beside)).items())), directory / CONFIG_NAME)


def _check(mapping: Mapping[str, Any], path: Path) -> None:
    for key, name in _OTHERS.items():
        if key in mapping:
            raise ConversionError(f"{path}: must be a configuration of BERT. Received: one of {name}, by `{key}`")
    if mapping.get("embedding_size") not in (None, mapping.get("hidden_size", _DEFAULTS["hidden_size"])):
        raise ConversionError(
            f"{path}: `embedding_size` must equal `hidden_size`; only ALBERT and ELECTRA factorize the embedding. "
            f"Received: {mapping['embedding_size']}"
        )
    known = {"vocab_size", "embedding_size", *_DEFAULTS, *_UNREAD, *_FIXED}
    unknown = [f"`{key}`" for key in mapping if key not in known]
    if unknown:
        raise ConversionError(f"{path}: unknown keys, which may change the computation: {', '.join(unknown)}")
    if "vocab_size" not in mapping:
        raise ConversionError(f"{path}: `vocab_size` must be set. Received: no such key")
    for key, allowed in _FIXED.items():
        if key in mapping and mapping[key] not in allowed:
            raise ConversionError(
                f"{path}: `{key}` must be {' or '.join(map(repr, allowed))}. Received: {mapping[key]!r}"
            )
    activation = mapping.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation.lower() not in _ACTIVATIONS:
        raise ConversionError(
            f"{path}: `hidden_act` must be one of {', '.join(_ACTIVATIONS)}. Received: {activation!r}"
        )
