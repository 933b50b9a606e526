"""Description of a preset, without its weights: config.json, vocab.txt and task.json.

The `model` of config.json has the format of `keras.saving.serialize_keras_object`: class name, registered name and
constructor arguments, with the encoder nested. Name, dtype policy, preprocessor, `trainable` and settings of layers are
left out, because a preset does not determine them or stores them in other files.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, save_json, to_dict
from bert_tf.config.base import checked_value, read_json_object, unknown_key
from bert_tf.config.preset_names import CONFIG_NAME
from bert_tf.layers.base import SETTINGS
from bert_tf.models.kinds import MODEL_KINDS
from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary, load_byte_pairs
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

TASK_NAME = "task.json"
# A preset holds one of them.
VOCABULARY_NAMES = (Vocabulary.file_name, BytePairVocabulary.file_name)
FORMAT_VERSION = 2
_LEFT_OUT = ("dtype", "name", "preprocessor", SETTINGS, "trainable")
_ARGUMENTS_OF_VERSION_1 = (
    "num_classes", "classifier_dropout", "pooling", "masked_lm", "next_sentence", "combination", "bilstm_dim"
)  # fmt: skip


@dataclass(frozen=True)
class PresetHeader:
    """Content of config.json; field names are the same as in the file.

    `model` is a serialized model.
    """

    format_version: int
    model: dict[str, Any]
    lowercase: bool
    vocabulary_sha256: str
    info: dict[str, Any] = field(default_factory=dict)
    # Of model.weights.h5; empty where the weights are not in that file, and in presets of earlier versions.
    weights_sha256: str = ""

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ConfigError(f"`format_version` must be 1 or {FORMAT_VERSION}. Received: {self.format_version}")

    @property
    def kind(self) -> str:
        """Class name of the model."""
        return self.model["class_name"]

    @property
    def config(self) -> BertConfig:
        """Architecture of the encoder."""
        return BertConfig(**configs_of(self.model)[-1]["config"])

    @property
    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of the model and of a BiLSTM below it, without the encoder's."""
        configs = configs_of(self.model)[:-1]
        return {name: value for config in configs for name, value in config.items() if name != "backbone"}

    @property
    def least_parameters(self) -> int:
        """Lower bound of the number of parameters in encoder and head."""
        hidden, bilstm = self.config.hidden_dim, self.arguments.get("bilstm_dim", 0)
        width = min(hidden, 2 * bilstm) if bilstm else hidden
        # The recurrent kernels of a BiLSTM contain eight square matrices.
        return self.config.num_parameters + 8 * bilstm * bilstm + self.arguments.get("num_classes", 0) * width


def checked_header(header: PresetHeader, where: str) -> PresetHeader:
    """Returns a header with the values of all arguments of its model; see `checked_model` for errors."""
    kinds = [kind.model for kind in MODEL_KINDS.values()]
    return replace(header, model=checked_model(header.model, kinds, f"{where}: `model`"))


def write_header(
    model: keras.Model,
    directory: Path,
    vocabulary: Vocabulary,
    lowercase: bool,
    task: Mapping[str, Any] | None = None,
    info: Mapping[str, Any] | None = None,
    weights_sha256: str = "",
) -> None:
    """Writes everything but the weights of a preset.

    Args:
        model: model of one of `MODEL_KINDS`.
        directory: existing directory.
        vocabulary: vocabulary of the same size as the model's token embedding.
        lowercase: whether the tokenizer lower-cases.
        task: content of task.json; no file is written if None.
        info: additional information that JSON can represent.
        weights_sha256: SHA-256 of the weights' file.
    """
    model_fields, about = serialize_model(model), dict(info or {})
    header = PresetHeader(FORMAT_VERSION, model_fields, lowercase, vocabulary.fingerprint, about, weights_sha256)
    save_json(header, directory / CONFIG_NAME)
    save_vocabulary(vocabulary, directory / vocabulary.file_name)
    if task is not None:
        save_json(task, directory / TASK_NAME)


def read_header(directory: Path) -> tuple[PresetHeader, Vocabulary, dict[str, Any] | None]:
    """Reads everything but the weights of a preset.

    Args:
        directory: directory with the files of `write_header`.

    Returns:
        The header, the vocabulary, and the content of task.json or None.

    Raises:
        ConfigError: for an unreadable file, an unknown key, or a vocabulary that does not match the model.
    """
    path = directory / CONFIG_NAME
    header = checked_header(from_dict(PresetHeader, upgraded(read_json_object(path)), str(path)), str(path))
    file = vocabulary_file(directory)
    if file.name == BytePairVocabulary.file_name:
        vocabulary: Vocabulary = load_byte_pairs(file).padded(header.config.vocabulary_size)
    else:
        vocabulary = load_vocabulary(file)
    check_vocabulary(vocabulary, header.config, str(file))
    if vocabulary.fingerprint != header.vocabulary_sha256:
        raise ConfigError(
            f"{file}: not the vocabulary of {CONFIG_NAME}: the SHA-256 must be "
            f"{header.vocabulary_sha256}. Received: {vocabulary.fingerprint}"
        )
    task_path = directory / TASK_NAME
    return header, vocabulary, read_json_object(task_path) if task_path.exists() else None


def vocabulary_file(directory: Path) -> Path:
    """Returns the path of a preset's vocabulary: vocab.txt, or tokenizer.json if there is only that."""
    paths = [directory / name for name in VOCABULARY_NAMES]
    return next((path for path in paths if path.is_file()), paths[0])


def check_vocabulary(vocabulary: Vocabulary, config: BertConfig, source: str) -> None:
    """Raises ConfigError if a vocabulary has another size than the model's token embedding."""
    if len(vocabulary) != config.vocabulary_size:
        raise ConfigError(
            f"{source}: must have as many tokens as the model's `vocabulary_size`, {config.vocabulary_size}. "
            f"Received: {len(vocabulary)}"
        )


def serialized(class_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the serialized form of a model of this package."""
    return {"class_name": class_name, "registered_name": f"bert_tf>{class_name}", "config": dict(arguments)}


def serialize_model(model: keras.Model) -> dict[str, Any]:
    """Returns the serialized form of `model`."""
    # The configuration and not the model: that of a compiled model would include losses and metrics.
    return _architecture(serialized(type(model).__name__, keras.saving.serialize_keras_object(model.get_config())))


def deserialize_model(model: Mapping[str, Any], dtype: Any) -> keras.Model:
    """Builds a model with new weights.

    Args:
        model: result of `checked_model`.
        dtype: Keras dtype policy or its name; None for the global policy.

    Returns:
        The model.

    Raises:
        ConfigError: for arguments that the model rejects.
    """
    policy = keras.dtype_policies.serialize(keras.dtype_policies.get(dtype))
    return keras.saving.deserialize_keras_object(_with_dtype(model, policy), safe_mode=True)


def checked_model(model: Any, classes: Iterable[type[Any]], where: str) -> dict[str, Any]:
    """Checks an untrusted serialized model without building it.

    Args:
        model: value read from JSON.
        classes: permitted model classes.
        where: position of the value, for error messages.

    Returns:
        The serialized model with the values of all arguments, default values included.

    Raises:
        ConfigError: for another class, an unknown or missing argument, a value of the wrong type, or an architecture
            that `BertConfig` rejects.
    """
    by_name = {cls.__name__: cls for cls in classes}
    if not isinstance(model, dict) or not isinstance(model.get("config"), dict):
        raise ConfigError(f"{where} must be a serialized model with a `config`. Received: {model!r}")
    name = model.get("class_name")
    if not isinstance(name, str) or name not in by_name:
        raise ConfigError(f"{where}: `class_name` must be one of {', '.join(by_name)}. Received: {name!r}")
    checked = serialized(name, _checked_arguments(model["config"], by_name[name], where))
    for key, value in model.items():
        if key not in checked:
            raise unknown_key(where, key, checked)
        if key == "registered_name" and value != checked[key]:
            raise ConfigError(f"{where}: `{key}` must be {checked[key]}. Received: {value!r}")
    return checked


def upgraded(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the content of a config.json of version 1 in version 2, unchecked; that of other versions unchanged.

    Version 1 has the arguments of all kinds of models beside one another, most of them null.
    """
    version = content.get("format_version")
    if type(version) is not int or version != 1:
        return content
    rest = {"kind": None, "model": None, **content}
    kind, encoder = rest.pop("kind"), {"config": rest.pop("model")}
    arguments = {name: rest.pop(name) for name in _ARGUMENTS_OF_VERSION_1 if name in rest}
    arguments["dropout"] = arguments.pop("classifier_dropout", None)
    of_others = () if kind == "BertPretrainer" else ("masked_lm", "next_sentence")
    arguments = {name: value for name, value in arguments.items() if value is not None and name not in of_others}
    if kind == "BertBackbone":
        model = serialized(kind, encoder | arguments)
    else:
        backbone = serialized("BertBackbone", encoder)
        if kind != "BertFeatureTagger" and "bilstm_dim" in arguments:
            width = arguments.pop("bilstm_dim")
            backbone = serialized("BertBiLSTMEncoder", {"backbone": backbone, "bilstm_dim": width})
        model = serialized(str(kind), {"backbone": backbone} | arguments)
    return rest | {"format_version": 2, "model": model}


def configs_of(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the `config` of a serialized model and of the models nested in it, that of the encoder last."""
    config = model["config"]
    return [config, *(configs_of(config["backbone"]) if "backbone" in config else ())]


def _checked_arguments(arguments: Mapping[str, Any], cls: type[Any], where: str) -> dict[str, Any]:
    """Returns the constructor arguments of `cls`; the annotations of the constructor are the rule."""
    hints = typing.get_type_hints(cls.__init__)
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if name not in ("self", *_LEFT_OUT) and parameter.kind is not parameter.VAR_KEYWORD
    }
    for key in arguments:
        if key not in parameters:
            raise unknown_key(f"{where}: {cls.__name__}", key, parameters)
    checked = {}
    for name, parameter in parameters.items():
        if name in arguments:
            checked[name] = _checked_argument(arguments[name], hints[name], f"{where}: `{name}`")
        elif parameter.default is parameter.empty or BertConfig in typing.get_args(hints[name]):
            raise ConfigError(f"{where}: `{name}` is required for {cls.__name__}.")
        else:
            checked[name] = parameter.default
    return checked


def _checked_argument(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint) or (hint,)
    if BertConfig in options:
        return to_dict(from_dict(BertConfig, value, where))
    if all(isinstance(option, type) and issubclass(option, keras.Model) for option in options):
        return checked_model(value, options, where)
    return checked_value(value, hint, where)


def _architecture(value: Any) -> Any:
    """Returns a serialized object without the entries that a preset does not determine."""
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    arguments = {name: _architecture(item) for name, item in value["config"].items() if name not in _LEFT_OUT}
    return serialized(value["class_name"], arguments)


def _with_dtype(model: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    config = model["config"]
    # Models take the dtype policy of their encoder.
    nested = {"backbone": _with_dtype(config["backbone"], dtype)} if "backbone" in config else {"dtype": dtype}
    return {**model, "config": config | nested}
