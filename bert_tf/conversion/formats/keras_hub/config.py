"""Reads and writes the JSON files of keras-hub presets: encoder, task and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_tf.config import BertConfig, from_dict
from bert_tf.conversion.checkpoint import conversion_errors, read_json
from bert_tf.conversion.tensors import ConversionError, Heads, checked_rate

CONFIG_NAME, TASK_NAME, TOKENIZER_NAME = "config.json", "task.json", "tokenizer.json"
PREPROCESSOR_NAME, METADATA_NAME = "preprocessor.json", "metadata.json"
# Fixed values of keras-hub's classes.
ACTIVATION, EPSILON = "gelu_approximate", 1e-12
MLM_ACTIVATION, MLM_EPSILON = "gelu", 1e-5
# Key in metadata.json for values that keras-hub does not store. keras-hub writes the file but never reads it.
_OURS = "bert_tf"
_PACKAGES = ("keras_hub>", "keras_nlp>")
_TASKS = {
    "BertMaskedLM": Heads(masked_lm=True),
    "BertTextClassifier": Heads(task="sequence_classification"),
    "BertClassifier": Heads(task="sequence_classification"),
    "BertTextEmbedder": Heads(),
}
_MODULES = {"BertMaskedLM": "bert_masked_lm", "BertTextClassifier": "bert_text_classifier"}
_OBJECT_KEYS = {"module", "class_name", "config", "registered_name"}
# Keys of older versions, which do not affect the computation.
_OLD_KEYS = {"assets", "weights", "build_config", "compile_config", "shared_object_id"}
_REQUIRED = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
_SIZES = (*_REQUIRED, "max_sequence_length", "num_segments")
_BACKBONE_KEYS = {*_SIZES, "dropout", "name", "trainable", "dtype"}
_TASK_KEYS = {
    "BertMaskedLM": set(),
    "BertTextClassifier": {"num_classes", "activation", "dropout"},
    "BertClassifier": {"num_classes", "activation", "dropout"},
    "BertTextEmbedder": {"pooling_mode", "normalize"},
}
# Arguments of the tokenizer that must have BERT's value.
_TOKENIZER_FIXED = {
    "split": True,
    "split_on_cjk": True,
    "suffix_indicator": "##",
    "oov_token": "[UNK]",
    "special_tokens": None,
}
_TOKENIZER_KEYS = {*_TOKENIZER_FIXED, "name", "trainable", "dtype", "config_file", "vocabulary", "sequence_length"}
_TOKENIZER_KEYS |= {"lowercase", "strip_accents", "special_tokens_in_strings"}


@dataclass(frozen=True)
class Task:
    """A task on the encoder: keras-hub's class, its own arguments, and the dropout rate before a classifier's head."""

    name: str
    heads: Heads
    dropout: float | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Remembered:
    """Values of this project in metadata.json."""

    labels: tuple[str, ...] | None = None
    step: int | None = None
    initializer_range: float = BertConfig.initializer_range


@conversion_errors()
def read_backbone(mapping: Mapping[str, Any], path: Path) -> BertConfig:
    """Returns the encoder's architecture. Raises ConversionError if it is not BERT, quantized or has unknown keys."""
    _, arguments = _object(mapping, ("BertBackbone",), path)
    rest = _known(arguments, _BACKBONE_KEYS, path)
    _check_policy(rest.get("dtype"), path)
    values = {key: rest[key] for key in (*_SIZES, "dropout") if key in rest}
    missing = [key for key in _REQUIRED if key not in values]
    if missing:
        raise ConversionError(f"{path}: `config` must have all required keys. Missing: {', '.join(missing)}")
    fixed = {"activation": ACTIVATION, "layer_norm_epsilon": EPSILON}
    return from_dict(BertConfig, values | fixed, f"{path}: `config`")


def read_task(path: Path, config: BertConfig) -> Task:
    """Returns the task of a preset with the encoder `config`. Raises ConversionError for any other task or encoder."""
    mapping = read_json(path)
    name, arguments = _object(mapping, tuple(_TASKS), path)
    rest = _known(arguments, _TASK_KEYS[name] | {"backbone", "preprocessor", "name", "trainable", "dtype"}, path)
    if not isinstance(rest.get("backbone"), dict) or read_backbone(rest["backbone"], path) != config:
        raise ConversionError(f"{path}: `backbone` must equal {CONFIG_NAME}. Received: {rest.get('backbone')!r}")
    heads = _TASKS[name]
    if heads.task:
        activation = rest.get("activation", "linear")
        if activation not in ("linear", "softmax", None):
            raise ConversionError(f"{path}: `activation` must be `linear` or `softmax`. Received: {activation!r}")
        number = rest.get("num_classes")
        if type(number) is not int or number < 1:
            raise ConversionError(f"{path}: `num_classes` must be an integer of at least 1. Received: {number!r}")
        heads = Heads(task=heads.task, num_labels=number)
    task_arguments = {key: rest[key] for key in sorted(_TASK_KEYS[name]) if key in rest}
    rate = checked_rate(rest.get("dropout") if heads.task else None, f"{path}: `dropout`")
    return Task(name, heads, rate, task_arguments)


def read_tokenizer(path: Path) -> bool:
    """Returns True if the tokenizer lower-cases text. Raises ConversionError if it splits text unlike BERT's."""
    _, arguments = _object(read_json(path), ("BertTokenizer",), path)
    rest = _known(arguments, _TOKENIZER_KEYS, path)
    for key, value in _TOKENIZER_FIXED.items():
        if rest.get(key, value) != value:
            raise ConversionError(f"{path}: `{key}` must be {value!r}. Received: {rest[key]!r}")
    lowercase = rest.get("lowercase", False)
    if not isinstance(lowercase, bool):
        raise ConversionError(f"{path}: `lowercase` must be true or false. Received: {lowercase!r}")
    # keras-hub's presets of the original's models lower-case text without stripping accents. The original does both, so
    # that combination is accepted.
    if rest.get("strip_accents") and not lowercase:
        raise ConversionError(f"{path}: `strip_accents` must be false if `lowercase` is false. Received: true")
    return lowercase


@conversion_errors()
def read_metadata(path: Path) -> tuple[Remembered, dict[str, Any]]:
    """Returns this project's values in metadata.json, and the versions that wrote the preset."""
    if not path.is_file():
        return Remembered(), {}
    mapping = read_json(path)
    ours = from_dict(Remembered, mapping.get(_OURS, {}), f"{path}: `{_OURS}`")
    return ours, {key: mapping[key] for key in ("keras_version", "keras_hub_version") if key in mapping}


def backbone_object(config: BertConfig, dtype: str) -> dict[str, Any]:
    """Returns the content of config.json for a BertBackbone."""
    arguments = {name: getattr(config, name) for name in (*_SIZES, "dropout")}
    return _serialized("BertBackbone", "bert_backbone", arguments, dtype)


def tokenizer_object(lowercase: bool) -> dict[str, Any]:
    """Returns the content of tokenizer.json for a BertTokenizer; the vocabulary is a separate file."""
    arguments = {
        "config_file": TOKENIZER_NAME,
        "vocabulary": None,
        "sequence_length": None,
        "lowercase": lowercase,
        "strip_accents": lowercase,
        "special_tokens_in_strings": False,
    }
    fixed = {key: value for key, value in _TOKENIZER_FIXED.items() if key != "split_on_cjk"}
    return _serialized("BertTokenizer", "bert_tokenizer", arguments | fixed, "int32")


def preprocessor_object(task: str, config: BertConfig, lowercase: bool) -> dict[str, Any]:
    """Returns the content of preprocessor.json for a task; text is truncated to the number of positions."""
    arguments = {
        "tokenizer": tokenizer_object(lowercase),
        "config_file": PREPROCESSOR_NAME,
        "sequence_length": config.max_sequence_length,
        "truncate": "round_robin",
    }
    return _serialized(f"{task}Preprocessor", f"{_MODULES[task]}_preprocessor", arguments, "float32")


def task_object(task: Task, config: BertConfig, dtype: str, preprocessor: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the content of task.json."""
    module = _MODULES[task.name]
    arguments = {"backbone": backbone_object(config, dtype), "preprocessor": preprocessor, "name": module}
    return _serialized(task.name, module, arguments | dict(task.arguments))


def metadata_object(parameters: int, remembered: Remembered) -> dict[str, Any]:
    """Returns the content of metadata.json."""
    import keras

    return {
        "keras_version": keras.version(),
        "parameter_count": parameters,
        "tasks": ["MaskedLM", "TextClassifier", "TextEmbedder"],
        _OURS: asdict(remembered) | {"labels": list(remembered.labels) if remembered.labels else None},
    }


def _object(mapping: Mapping[str, Any], names: tuple[str, ...], path: Path) -> tuple[str, dict[str, Any]]:
    _known(mapping, _OBJECT_KEYS | _OLD_KEYS, path)
    name, registered = mapping.get("class_name"), mapping.get("registered_name")
    if name not in names or registered not in (None, *(f"{package}{name}" for package in _PACKAGES)):
        raise ConversionError(
            f"{path}: must be a {' or '.join(names)} of keras-hub, not another architecture. "
            f"Received: {registered or name}"
        )
    arguments = mapping.get("config")
    if not isinstance(arguments, dict):
        raise ConversionError(f"{path}: `config` must be a JSON object. Received: {arguments!r}")
    return str(name), arguments


def _known(mapping: Mapping[str, Any], known: set[str], path: Path) -> dict[str, Any]:
    unknown = sorted(set(mapping) - known)
    if unknown:
        raise ConversionError(f"{path}: unknown keys, which may change what the model computes: {', '.join(unknown)}")
    return dict(mapping)


def _check_policy(policy: Any, path: Path) -> None:
    name: Any = policy
    if isinstance(policy, dict):
        arguments = policy.get("config")
        plain = policy.get("class_name") in ("DTypePolicy", "FloatDTypePolicy") and isinstance(arguments, dict)
        name = arguments.get("name") if plain and isinstance(arguments, dict) else policy.get("class_name")
    if name not in (None, "float32", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16"):
        raise ConversionError(
            f"{path}: `dtype` must be float32, bfloat16 or float16, plain or mixed; quantized presets cannot be read. "
            f"Received: {name}"
        )


def _serialized(name: str, module: str, arguments: Mapping[str, Any], dtype: str | None = None) -> dict[str, Any]:
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": dtype}, "registered_name": None}
    base = {"name": module, "trainable": True, "dtype": policy} if dtype else {}
    return {
        "module": f"keras_hub.src.models.bert.{module}",
        "class_name": name,
        "config": {**base, **arguments},
        "registered_name": f"keras_hub>{name}",
    }
