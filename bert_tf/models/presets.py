"""Presets: a model, its vocabulary and what a task needs to know, in one directory.

    config.json        kind of model, architecture, `lowercase`, the vocabulary's fingerprint, `info`
    vocab.txt          one word piece a line
    model.weights.h5   one dataset a weight, named by the variable's path
    task.json          for a fine-tuned model: labels, text columns, lengths; any JSON object

A preset is written beside its place and renamed into it; reading is strict.
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
# What a conversion wrote of itself.
PARITY_NAME = "parity.json"
# Where a run keeps its preset, beside its checkpoints and curves.
RUN_PRESET_NAME = "preset"
FORMAT_VERSION = 1
# Larger models are built only once their file is known to hold as many numbers; a smaller one costs little memory, and
# the message can then name the weight that is missing.
_LARGE = 10**8
# What a model of each kind is made of, beside its encoder.
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
# Those that may have a BiLSTM between the encoder and their head.
_WITH_BILSTM = ("BertTextClassifier", "BertTokenClassifier", "BertSpanPredictor", "BertMultipleChoice")
_CLASSIFIERS = tuple(kind for kind, arguments in ARGUMENTS.items() if "num_classes" in arguments)


@dataclass(frozen=True)
class Preset:
    """What a preset directory holds.

    Args:
        model: of the class that `kind` names, weights loaded.
        config: the encoder's architecture.
        vocabulary: as long as the model's token embedding.
        lowercase: whether text is lower-cased and stripped of accents before word pieces are cut.
        kind: one of `KINDS`.
        task: content of task.json; `None` where there is none.
        info: whatever the writer wanted to be known (steps, data, figures).
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
    """config.json without `info`; the fields are those of the file.

    `bilstm_dim` is the width of the BiLSTM of a BertFeatureTagger, and of one between encoder and head of other models.
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
                f"`num_classes` belongs to a {' or '.join(_CLASSIFIERS)}, and only there. "
                f"Received: {self.num_classes} with kind {self.kind}"
            )
        may_have = {name: self._kinds_with(name) for name in ("combination", "pooling")}
        may_have["bilstm_dim"] = (*self._kinds_with("bilstm_dim"), *_WITH_BILSTM)
        for name, kinds in may_have.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise ConfigError(f"`{name}` belongs to a {' or '.join(kinds)}. Received: kind {self.kind}")

    def build(self, dtype: Any) -> keras.Model:
        """Returns a new model of this kind."""
        backbone = _class("BertBackbone")(self.model, dtype=dtype)
        if self.kind == "BertBackbone":
            return backbone
        if self.bilstm_dim is not None and self.kind in _WITH_BILSTM:
            backbone = _class("BertBiLSTMEncoder")(backbone, self.bilstm_dim)
        given = {
            "num_classes": self.num_classes,
            "dropout": self.classifier_dropout,
            "pooling": self.pooling,
            "masked_lm": self.masked_lm,
            "next_sentence": self.next_sentence,
            "combination": self.combination,
            "bilstm_dim": self.bilstm_dim,
        }
        arguments = {name: given[name] for name in ARGUMENTS[self.kind] if given[name] is not None}
        return _class(self.kind)(backbone, **arguments)

    @property
    def least_parameters(self) -> int:
        """A lower bound of the number of weights; with the size of the encoder it grows with those of the head."""
        bilstm = self.bilstm_dim or 0
        width = min(self.model.hidden_dim, 2 * bilstm) if bilstm else self.model.hidden_dim
        # Eight matrices of a BiLSTM map its own states.
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
    """Writes `model` as a preset.

    All files are written to a directory beside `directory`, read back, and renamed to it. A preset that
    stands there is moved aside first and deleted last.

    Args:
        model: of one of `KINDS`; its optimizer is not kept.
        directory: does not exist, is empty or holds a preset.
        vocabulary: as long as the model's token embedding.
        lowercase: whether the tokenizer lower-cases.
        task: content of task.json; `None` writes none.
        info: anything worth knowing that JSON can hold.

    Raises:
        ConfigError: when the vocabulary does not fit, `model` is none of ours, or `directory` holds anything
            but a preset.
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
        directory: what `save_preset` wrote, or a run's output that holds one as `preset`.
        dtype: a Keras dtype policy or its name for the model; the global one when `None`.

    Returns:
        The preset with its model.

    Raises:
        ConfigError: for a missing or unreadable file, an unknown key, a vocabulary or weights that do not fit;
            the message names the file and the field.
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
    """Returns `directory`, or `directory/preset` where a run put its preset there. Raises ConfigError for a URL."""
    directory = local_path(directory)
    of_run = directory / RUN_PRESET_NAME
    return of_run if (of_run / CONFIG_NAME).is_file() and not (directory / CONFIG_NAME).is_file() else directory


def load_backbone(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads a preset of any kind and keeps its encoder: `model` is a BertBackbone, `kind` says so.

    Arguments and errors are those of `load_preset`. `task` stays as it was read.
    """
    preset = load_preset(directory, dtype)
    backbone = encoder_of(preset.model)
    backbone.trainable = True
    return Preset(
        backbone, preset.config, preset.vocabulary, preset.lowercase, "BertBackbone", preset.task, preset.info
    )


def encoder_of(model: keras.Model) -> Any:
    """Returns the BertBackbone of a model of ours, whatever stands on it."""
    while hasattr(model, "backbone"):
        model = model.backbone
    return model


def load_model(directory: str | Path, kind: str, dtype: Any = None) -> Any:
    """Returns the model of class name `kind` from a preset; the encoder of any preset for a BertBackbone.

    Raises:
        ConfigError: as `load_preset`, and when the preset is of another kind.
    """
    preset = load_backbone(directory, dtype) if kind == "BertBackbone" else load_preset(directory, dtype)
    if preset.kind != kind:
        raise ConfigError(f"{directory}: expected a preset of a {kind}. Received: {preset.kind}")
    return preset.model


def _class(kind: str) -> Any:
    # The models import this module, so it knows them by their registered names.
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
    """Returns all but the weights: config.json, vocabulary, task.json, and config.json's `info`.

    Raises:
        ConfigError: as `load_preset`.
    """
    for name in (CONFIG_NAME, VOCABULARY_NAME, WEIGHTS_NAME):
        if not (directory / name).is_file():
            aside = set_aside(directory)
            hint = f" (the preset before an interrupted save stands in {aside})" if aside.is_dir() else ""
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
            f"{directory / VOCABULARY_NAME}: not the vocabulary of {CONFIG_NAME}: its SHA-256 must be "
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
                f"{directory / WEIGHTS_NAME}: must hold at least {least} numbers by {CONFIG_NAME}. Received: {stored}"
            )


def _check_vocabulary(vocabulary: Vocabulary, config: BertConfig, source: str) -> None:
    if len(vocabulary) != config.vocabulary_size:
        raise ConfigError(
            f"{source}: must have as many tokens as the model's `vocabulary_size`, {config.vocabulary_size}. "
            f"Received: {len(vocabulary)}"
        )
