"""Presets: a model, its vocabulary and its task settings in one directory.

    config.json        kind of model, architecture, `lowercase`, fingerprint of the vocabulary, `info`
    vocab.txt          one word piece per line
    model.weights.h5   one dataset per weight, named by the variable's path
    task.json          for fine-tuned models: labels, text columns, lengths; any JSON object

A preset is written to a staging directory and then renamed. Reading validates strictly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, local_path, save_json, to_dict
from bert_tf.config.base import read_json_object
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.models.preset_files import (
    check_replaceable,
    read_weights,
    replace_directory,
    set_aside,
    stored_shapes,
    write_weights,
)
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.weights.h5"
TASK_NAME = "task.json"
# Verification record of a conversion.
PARITY_NAME = "parity.json"
# Name of the preset in a run's output directory, next to checkpoints and logs.
RUN_PRESET_NAME = "preset"
FORMAT_VERSION = 1
# Larger models are built only after a check that the file contains enough numbers. Smaller models cost little memory,
# and building them lets the error name the missing weight.
_LARGE = 10**8
# Constructor arguments of each kind of model, other than the encoder.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "BertBackbone": (),
    "BertPretrainer": ("masked_lm", "next_sentence"),
    "BertTextClassifier": ("num_classes", "dropout", "pooling"),
    "BertTokenClassifier": ("num_classes", "dropout"),
    "BertSpanPredictor": (),
    "BertMultipleChoice": ("dropout",),
    "BertFeatureTagger": ("num_classes", "combination", "bilstm_dim", "dropout"),
    "BertProbe": ("num_classes", "combination", "pooling"),
}
KINDS = tuple(ARGUMENTS)
# Kinds that may have a BiLSTM between encoder and head.
_WITH_BILSTM = ("BertTextClassifier", "BertTokenClassifier", "BertSpanPredictor", "BertMultipleChoice")
_CLASSIFIERS = tuple(kind for kind, arguments in ARGUMENTS.items() if "num_classes" in arguments)


@dataclass(frozen=True)
class Preset:
    """Content of a preset directory.

    Args:
        model: model of class `kind` with loaded weights.
        config: architecture of the encoder.
        vocabulary: vocabulary of the same size as the model's token embedding.
        lowercase: whether the tokenizer lower-cases text and strips accents.
        kind: one of `KINDS`.
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
    """Content of config.json without `info`; field names are the same as in the file.

    `bilstm_dim` is the number of units per direction in the BiLSTM of a BertFeatureTagger, or in the BiLSTM between
    encoder and head of other models.
    """

    format_version: int
    kind: str
    model: BertConfig
    lowercase: bool
    vocabulary_sha256: str
    num_classes: int | None = None
    classifier_dropout: float | None = None
    pooling: str | None = None
    masked_lm: bool = True
    next_sentence: bool = True
    combination: str | None = None
    bilstm_dim: int | None = None

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ConfigError(f"`format_version` must be {FORMAT_VERSION}. Received: {self.format_version}")
        if self.kind not in KINDS:
            raise ConfigError(f"`kind` must be one of {', '.join(KINDS)}. Received: {self.kind!r}")
        if (self.kind in _CLASSIFIERS) != (self.num_classes is not None):
            raise ConfigError(
                f"`num_classes` is required for kind {' or '.join(_CLASSIFIERS)} and must not be set for other kinds. "
                f"Received: {self.num_classes} with kind {self.kind}"
            )
        may_have = {name: self._kinds_with(name) for name in ("combination", "pooling")}
        may_have["bilstm_dim"] = (*self._kinds_with("bilstm_dim"), *_WITH_BILSTM)
        for name, kinds in may_have.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise ConfigError(
                    f"`{name}` must only be set for kind {' or '.join(kinds)}. Received: kind {self.kind}"
                )

    def build(self, dtype: Any) -> keras.Model:
        """Builds a new model of this kind."""
        backbone = _class("BertBackbone")(self.model, dtype=dtype)
        if self.kind == "BertBackbone":
            return backbone
        if self.bilstm_dim is not None and self.kind in _WITH_BILSTM:
            backbone = _class("BertBiLSTMEncoder")(backbone, self.bilstm_dim)
        values = {
            "num_classes": self.num_classes,
            "dropout": self.classifier_dropout,
            "pooling": self.pooling,
            "masked_lm": self.masked_lm,
            "next_sentence": self.next_sentence,
            "combination": self.combination,
            "bilstm_dim": self.bilstm_dim,
        }
        arguments = {name: values[name] for name in ARGUMENTS[self.kind] if values[name] is not None}
        return _class(self.kind)(backbone, **arguments)

    @property
    def least_parameters(self) -> int:
        """Lower bound of the number of parameters in encoder and head."""
        bilstm = self.bilstm_dim or 0
        width = min(self.model.hidden_dim, 2 * bilstm) if bilstm else self.model.hidden_dim
        # The recurrent kernels of a BiLSTM contain eight square matrices.
        return self.model.num_parameters + 8 * bilstm * bilstm + (self.num_classes or 0) * width

    @staticmethod
    def _kinds_with(argument: str) -> tuple[str, ...]:
        return tuple(kind for kind, arguments in ARGUMENTS.items() if argument in arguments)


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
        model: model of one of `KINDS`; its optimizer is not saved.
        directory: output directory, which must be missing, empty or a preset.
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
    directory = local_path(directory)
    header = _header(model, vocabulary, lowercase)
    check_replaceable(directory, (CONFIG_NAME, VOCABULARY_NAME, WEIGHTS_NAME, TASK_NAME, PARITY_NAME), CONFIG_NAME)

    def write(staging: Path) -> None:
        save_json(to_dict(header) | {"info": dict(info or {})}, staging / CONFIG_NAME)
        save_vocabulary(vocabulary, staging / VOCABULARY_NAME)
        if task is not None:
            save_json(task, staging / TASK_NAME)
        write_weights(model, staging / WEIGHTS_NAME)
        read_header(staging)

    replace_directory(directory, write)


def load_preset(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads a preset.

    Args:
        directory: preset directory, or the output directory of a run that contains `preset`.
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
        model = header.build(dtype)
    except ConfigError as error:
        raise ConfigError(f"{directory / CONFIG_NAME}: {error}") from error
    read_weights(model, directory / WEIGHTS_NAME)
    return Preset(model, header.model, vocabulary, header.lowercase, header.kind, task, info)


def preset_directory(directory: str | Path) -> Path:
    """Returns `directory`, or `directory/preset` for the output directory of a run. Raises ConfigError for a URL."""
    directory = local_path(directory)
    run_preset = directory / RUN_PRESET_NAME
    return run_preset if (run_preset / CONFIG_NAME).is_file() and not (directory / CONFIG_NAME).is_file() else directory


def load_backbone(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads the encoder of a preset of any kind.

    Args:
        directory: preset directory, or the output directory of a run that contains `preset`.
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
    return Preset(
        backbone, preset.config, preset.vocabulary, preset.lowercase, "BertBackbone", preset.task, preset.info
    )


def encoder_of(model: keras.Model) -> Any:
    """Returns the BertBackbone of a model of this package."""
    while hasattr(model, "backbone"):
        model = model.backbone
    return model


def load_model(directory: str | Path, kind: str, dtype: Any = None) -> Any:
    """Loads a model of class `kind` from a preset.

    Args:
        directory: preset directory, or the output directory of a run that contains `preset`.
        kind: class name of the model; `BertBackbone` loads the encoder of a preset of any kind.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The model.

    Raises:
        ConfigError: see `load_preset`; also if the preset is of another kind.
    """
    preset = load_backbone(directory, dtype) if kind == "BertBackbone" else load_preset(directory, dtype)
    if preset.kind != kind:
        raise ConfigError(f"{directory}: expected a preset of a {kind}. Received: {preset.kind}")
    return preset.model


def _class(kind: str) -> Any:
    # Models import this module, so it looks them up by their registered names to avoid an import cycle.
    return keras.saving.get_registered_object(f"bert_tf>{kind}")


def _header(model: keras.Model, vocabulary: Vocabulary, lowercase: bool) -> PresetHeader:
    kind = type(model).__name__
    if kind not in KINDS or not isinstance(model, _class(kind)):
        raise ConfigError(f"`model` must be one of {', '.join(KINDS)}. Received: {type(model)}")
    config = encoder_of(model).config
    _check_vocabulary(vocabulary, config, "`vocabulary`")
    return PresetHeader(
        format_version=FORMAT_VERSION,
        kind=kind,
        model=config,
        lowercase=lowercase,
        vocabulary_sha256=vocabulary.fingerprint,
        num_classes=getattr(model, "num_classes", None),
        classifier_dropout=getattr(model, "dropout", None),
        pooling=getattr(model, "pooling", None),
        masked_lm=getattr(model, "masked_lm", True),
        next_sentence=getattr(model, "next_sentence", True),
        combination=getattr(model, "combination", None),
        bilstm_dim=getattr(model, "bilstm_dim", getattr(getattr(model, "backbone", None), "bilstm_dim", None)),
    )


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
    mapping = read_json_object(path)
    info = mapping.pop("info", {})
    if not isinstance(info, dict):
        raise ConfigError(f"{path}: `info` must be a JSON object. Received: {info!r}")
    header = from_dict(PresetHeader, mapping, str(path))
    _check_size(header, directory)
    vocabulary = load_vocabulary(directory / VOCABULARY_NAME)
    _check_vocabulary(vocabulary, header.model, str(directory / VOCABULARY_NAME))
    if vocabulary.fingerprint != header.vocabulary_sha256:
        raise ConfigError(
            f"{directory / VOCABULARY_NAME}: not the vocabulary of {CONFIG_NAME}: the SHA-256 must be "
            f"{header.vocabulary_sha256}. Received: {vocabulary.fingerprint}"
        )
    task_path = directory / TASK_NAME
    return header, vocabulary, read_json_object(task_path) if task_path.exists() else None, info


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
