"""Presets: a model, its vocabulary and its task settings in one directory.

    config.json        `format_version`, serialized `model` (see `serialization`), `lowercase`, fingerprint of the
                       vocabulary, `info`
    vocab.txt          one word piece per line
    model.weights.h5   one dataset per weight, named by the variable's path
    task.json          for fine-tuned models: labels, text columns, lengths; any JSON object

A preset is written to a staging directory and then renamed. Reading validates strictly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, save_json
from bert_tf.config.base import read_json_object
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.models.kinds import MODEL_KINDS
from bert_tf.models.preset_files import check_replaceable, replace_directory, set_aside
from bert_tf.models.serialization import checked_model, configs_of, deserialize_model, serialize_model, upgraded
from bert_tf.models.weights import read_weights, stored_shapes, write_weights
from bert_tf.storage import input_path, working_copy
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.weights.h5"
TASK_NAME = "task.json"
# Verification record of a conversion.
PARITY_NAME = "parity.json"
# Name of the preset in a run's output directory, next to checkpoints and logs.
RUN_PRESET_NAME = "preset"
FORMAT_VERSION = 2
# Larger models are built only after a check that the file contains enough numbers. Smaller models cost little memory,
# and building them lets the error name the missing weight.
_LARGE = 10**8


@dataclass(frozen=True)
class Preset:
    """Content of a preset directory.

    Args:
        model: model of class `kind` with loaded weights.
        config: architecture of the encoder.
        vocabulary: vocabulary of the same size as the model's token embedding.
        lowercase: whether the tokenizer lower-cases text and strips accents.
        kind: name in `MODEL_KINDS`.
        task: content of task.json; None if the file does not exist.
        info: additional information (steps, data, metrics).

    Example:
        >>> preset = bert_tf.load_preset("runs/small")  # written by `bert-tf pretrain --output runs/small`
        >>> preset.kind, preset.lowercase, preset.task
        ('BertPretrainer', True, None)
        >>> len(preset.vocabulary) == preset.config.vocabulary_size
        True
    """

    model: keras.Model
    config: BertConfig
    vocabulary: Vocabulary
    lowercase: bool
    kind: str
    task: dict[str, Any] | None
    info: dict[str, Any]


@dataclass(frozen=True)
class PresetHeader:
    """Content of config.json; field names are the same as in the file.

    `model` is a serialized model (see `serialization`).
    """

    format_version: int
    model: dict[str, Any]
    lowercase: bool
    vocabulary_sha256: str
    info: dict[str, Any] = field(default_factory=dict)

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


def save_preset(
    model: keras.Model,
    directory: str | Path,
    vocabulary: Vocabulary,
    lowercase: bool,
    task: Mapping[str, Any] | None = None,
    info: Mapping[str, Any] | None = None,
) -> None:
    """Saves `model` as a preset.

    All files are written to a staging directory, read back, and renamed to `directory`. An existing preset is moved
    aside first and deleted last.

    Args:
        model: model of one of `MODEL_KINDS`; its optimizer is not saved.
        directory: output directory or its URL, which must be missing, empty or a preset.
        vocabulary: vocabulary of the same size as the model's token embedding.
        lowercase: whether the tokenizer lower-cases.
        task: content of task.json; no file is written if None.
        info: additional information that JSON can represent.

    Raises:
        ConfigError: if the vocabulary does not match the model, the class of `model` is not supported, or `directory`
            contains other files.

    Example:
        >>> vocabulary = bert_tf.Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"))
        >>> config = bert_tf.BertConfig.from_size("tiny", vocabulary_size=len(vocabulary))
        >>> bert_tf.save_preset(bert_tf.BertBackbone(config), "encoder", vocabulary, lowercase=True)
        >>> from pathlib import Path
        >>> sorted(path.name for path in Path("encoder").iterdir())
        ['config.json', 'model.weights.h5', 'vocab.txt']
    """
    kind = MODEL_KINDS.get(type(model).__name__)
    if kind is None or not isinstance(model, kind.model):
        raise ConfigError(f"`model` must be one of {', '.join(MODEL_KINDS)}. Received: {type(model)}")
    _check_vocabulary(vocabulary, encoder_of(model).config, "`vocabulary`")
    header = PresetHeader(
        FORMAT_VERSION, serialize_model(model), lowercase, vocabulary.fingerprint, info=dict(info or {})
    )

    def write(staging: Path) -> None:
        save_json(header, staging / CONFIG_NAME)
        save_vocabulary(vocabulary, staging / VOCABULARY_NAME)
        if task is not None:
            save_json(task, staging / TASK_NAME)
        write_weights(model, staging / WEIGHTS_NAME)
        read_header(staging)

    with working_copy(directory) as path:
        check_replaceable(path, (CONFIG_NAME, VOCABULARY_NAME, WEIGHTS_NAME, TASK_NAME, PARITY_NAME), CONFIG_NAME)
        replace_directory(path, write)


def load_preset(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads a preset.

    Args:
        directory: preset directory, or the output directory of a run that contains `preset`; also a URL.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The preset with its model.

    Raises:
        ConfigError: for a missing or unreadable file, an unknown key, or a vocabulary or weights that do not match the
            model; the message names the file and the field.

    Example:
        >>> preset = bert_tf.load_preset("runs/small")  # written by `bert-tf pretrain --output runs/small`
        >>> type(preset.model).__name__, preset.config.num_layers
        ('BertPretrainer', 2)
        >>> bert_tf.load_preset("runs/small", dtype="mixed_bfloat16").model.dtype_policy.name
        'mixed_bfloat16'
    """
    directory = preset_directory(directory)
    header, vocabulary, task, info = read_header(directory)
    try:
        model = deserialize_model(header.model, dtype)
    except ConfigError as error:
        raise ConfigError(f"{directory / CONFIG_NAME}: {error}") from error
    read_weights(model, directory / WEIGHTS_NAME)
    return Preset(model, header.config, vocabulary, header.lowercase, header.kind, task, info)


def preset_directory(directory: str | Path) -> Path:
    """Returns `directory`, or `directory/preset` for the output directory of a run; of a URL, its local copy."""
    directory = input_path(directory, "preset")
    run_preset = directory / RUN_PRESET_NAME
    return run_preset if (run_preset / CONFIG_NAME).is_file() and not (directory / CONFIG_NAME).is_file() else directory


def load_backbone(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads the encoder of a preset of any kind.

    Args:
        directory: preset directory, or the output directory of a run that contains `preset`; also a URL.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The preset with a BertBackbone as `model`, kind `BertBackbone` and the `task` of the original preset.

    Raises:
        ConfigError: see `load_preset`.

    Example:
        >>> preset = bert_tf.load_backbone("runs/small")  # the encoder without the pre-training heads
        >>> tokenizer = bert_tf.BertTokenizer(preset.vocabulary, lowercase=preset.lowercase)
        >>> inputs = bert_tf.pack([tokenizer.ids(["a good film", "dull"])], preset.vocabulary, 32)
        >>> keras.ops.shape(preset.model(inputs)["pooled_output"])
        (2, 128)
    """
    preset = load_preset(directory, dtype)
    backbone = encoder_of(preset.model)
    backbone.trainable = True
    return replace(preset, model=backbone, kind="BertBackbone")


def encoder_of(model: keras.Model) -> Any:
    """Returns the BertBackbone of a model of this package."""
    while hasattr(model, "backbone"):
        model = model.backbone
    return model


def read_header(directory: Path) -> tuple[PresetHeader, Vocabulary, dict[str, Any] | None, dict[str, Any]]:
    """Reads everything but the weights of a preset.

    Args:
        directory: preset directory.

    Returns:
        The header, the vocabulary, the content of task.json and the `info` of config.json.

    Raises:
        ConfigError: see `load_preset`.
    """
    for name in (CONFIG_NAME, VOCABULARY_NAME, WEIGHTS_NAME):
        if not (directory / name).is_file():
            aside = set_aside(directory)
            hint = f" (a save was interrupted; the previous preset is in {aside})" if aside.is_dir() else ""
            raise ConfigError(f"{directory}: not a preset: `{name}` is missing{hint}.")
    path = directory / CONFIG_NAME
    header = from_dict(PresetHeader, upgraded(read_json_object(path)), str(path))
    kinds = [kind.model for kind in MODEL_KINDS.values()]
    header = replace(header, model=checked_model(header.model, kinds, f"{path}: `model`"))
    _check_size(header, directory)
    vocabulary = load_vocabulary(directory / VOCABULARY_NAME)
    _check_vocabulary(vocabulary, header.config, str(directory / VOCABULARY_NAME))
    if vocabulary.fingerprint != header.vocabulary_sha256:
        raise ConfigError(
            f"{directory / VOCABULARY_NAME}: not the vocabulary of {CONFIG_NAME}: the SHA-256 must be "
            f"{header.vocabulary_sha256}. Received: {vocabulary.fingerprint}"
        )
    task_path = directory / TASK_NAME
    return header, vocabulary, read_json_object(task_path) if task_path.exists() else None, header.info


def _check_size(header: PresetHeader, directory: Path) -> None:
    least = header.least_parameters
    if least > _LARGE:
        stored = sum(math.prod(shape) for shape in stored_shapes(directory / WEIGHTS_NAME).values())
        if stored < least:
            raise ConfigError(
                f"{directory / WEIGHTS_NAME}: must contain at least {least} numbers according to {CONFIG_NAME}. "
                f"Received: {stored}"
            )


def _check_vocabulary(vocabulary: Vocabulary, config: BertConfig, source: str) -> None:
    if len(vocabulary) != config.vocabulary_size:
        raise ConfigError(
            f"{source}: must have as many tokens as the model's `vocabulary_size`, {config.vocabulary_size}. "
            f"Received: {len(vocabulary)}"
        )
