"""Reads and writes the other files of the original's and the Model Garden's releases: configuration and vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, from_dict, save_json
from bert_tf.conversion.checkpoint import (
    Checkpoint,
    Options,
    conversion_errors,
    fitted_vocabulary,
    read_json,
)
from bert_tf.conversion.tensors import ConversionError
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.text.casing import is_lowercase
from bert_tf.text.vocabulary import save_vocabulary

CONFIG_NAME = "bert_config.json"
LAYER_NORM_EPSILON = 1e-12
# Key: field of `BertConfig`, and the programs' default.
_FIELDS: dict[str, tuple[str, Any]] = {
    "hidden_size": ("hidden_dim", 768),
    "num_hidden_layers": ("num_layers", 12),
    "num_attention_heads": ("num_heads", 12),
    "intermediate_size": ("intermediate_dim", 3072),
    "hidden_dropout_prob": ("dropout", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1),
    "max_position_embeddings": ("max_sequence_length", 512),
    "type_vocab_size": ("num_segments", 16),
    "initializer_range": ("initializer_range", 0.02),
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
# Casing by the directory name of a release; the first match is used.
_CASES = {
    "uncased": True,
    "cased": False,
    "multilingual_l-12_h-768_a-12": True,
    "chinese_l-12_h-768_a-12": True,
}
_CASE_KEY = "do_lower_case"


@conversion_errors()
def read_config(path: Path) -> tuple[BertConfig, dict[str, Any]]:
    """Returns the architecture in bert_config.json, and keys without effect. Raises ConversionError for other keys."""
    if not path.is_file():
        raise ConversionError(f"{path}: no such file. A TensorFlow checkpoint must have its configuration beside it.")
    mapping = read_json(path)
    _check(mapping, path)
    fields = {field: mapping.get(key, default) for key, (field, default) in _FIELDS.items()}
    for rate in ("dropout", "attention_dropout"):
        fields[rate] = 0.0 if fields[rate] is None else fields[rate]
    if fields["attention_dropout"] == fields["dropout"]:
        fields["attention_dropout"] = None
    fields |= {
        "vocabulary_size": mapping["vocab_size"],
        "activation": _ACTIVATIONS[mapping.get("hidden_act", "gelu").lower()],
    }
    config = from_dict(BertConfig, fields, str(path))
    return config, {name: value for name, value in mapping.items() if name in _UNREAD or name in _FIXED}


def release_fields(directory: Path, config: BertConfig, beside: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Returns the fields of a `Checkpoint` that a release keeps beside its tensors: vocabulary, casing and other keys.

    The sources of the casing, in this order: options, configuration, directory name, word pieces.
    """
    vocabulary = fitted_vocabulary(directory / VOCABULARY_NAME, config.vocabulary_size, options)
    name = directory.resolve().name.lower()
    named = (case for part, case in _CASES.items() if re.search(rf"(?<![a-z]){part}(?![a-z])", name))
    lowercase = options.lowercase
    if lowercase is None and _CASE_KEY in beside:
        lowercase = bool(beside[_CASE_KEY])
    if lowercase is None:
        lowercase = next(named, None if vocabulary is None else is_lowercase(vocabulary))
    info = {CONFIG_NAME: {name: value for name, value in beside.items() if name != _CASE_KEY}}
    return {"vocabulary": vocabulary, "lowercase": lowercase, "info": info}


def write_release(checkpoint: Checkpoint, directory: Path, options: Options) -> None:
    """Writes configuration and vocabulary. Raises ConversionError with a field that the programs cannot represent."""
    config, vocabulary = checkpoint.config, checkpoint.vocabulary
    names = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    if options.dtype not in (None, "float32"):
        raise ConversionError(
            f"{checkpoint.path}: `dtype` must be float32; this format supports float32 only. Received: {options.dtype}"
        )
    for field, allowed, reason in (
        ("activation", tuple(names), ""),
        ("layer_norm_epsilon", (LAYER_NORM_EPSILON,), ""),
        ("attention", ("bidirectional",), ""),
        ("pooler", (True,), ", since the program always has a pooler"),
    ):
        if getattr(config, field) not in allowed:
            rule = f"{'one of ' if len(allowed) > 1 else ''}{', '.join(map(str, allowed))}{reason}"
            raise ConversionError(
                f"{checkpoint.path}: {CONFIG_NAME} cannot represent this encoder: `{field}` must be {rule}. "
                f"Received: {getattr(config, field)}"
            )
    values = {key: getattr(config, field) for key, (field, _) in _FIELDS.items()}
    if config.attention_dropout is None:
        values["attention_probs_dropout_prob"] = config.dropout
    values |= {"hidden_act": names[config.activation], "vocab_size": config.vocabulary_size}
    values |= checkpoint.info.get(CONFIG_NAME, {})
    # The releases do not store the casing. If the word pieces suggest another one, the configuration stores it.
    if checkpoint.lowercase is not None and (vocabulary is None or is_lowercase(vocabulary) != checkpoint.lowercase):
        values[_CASE_KEY] = checkpoint.lowercase
    save_json(dict(sorted(values.items())), directory / CONFIG_NAME)
    if vocabulary is not None:
        save_vocabulary(vocabulary.without_padding(), directory / VOCABULARY_NAME)


def _check(mapping: Mapping[str, Any], path: Path) -> None:
    for key, name in _OTHERS.items():
        if key in mapping:
            raise ConversionError(f"{path}: must be a configuration of BERT. Received: one of {name}, by `{key}`")
    if mapping.get("embedding_size") not in (None, mapping.get("hidden_size", 768)):
        raise ConversionError(
            f"{path}: `embedding_size` must equal `hidden_size`; only ALBERT and ELECTRA factorize the embedding. "
            f"Received: {mapping['embedding_size']}"
        )
    known = {"vocab_size", "hidden_act", "embedding_size", *_FIELDS, *_UNREAD, *_FIXED}
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
