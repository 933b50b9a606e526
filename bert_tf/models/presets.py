"""Presets: a model, its vocabulary and what a task needs to know, in one directory.

    config.json        kind of model, architecture, `lowercase`, the vocabulary's fingerprint, `info`
    vocab.txt          one word piece a line
    model.weights.h5   one dataset a weight, named by the variable's path
    task.json          for a fine-tuned model: labels, text columns, lengths; any JSON object

A preset is written beside its place and renamed into it; reading is strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, save_json, to_dict
from bert_tf.config.base import read_json_object
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.models.preset_files import (
    check_replaceable,
    read_weights,
    replace_directory,
    set_aside,
    write_weights,
)
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.weights.h5"
TASK_NAME = "task.json"
# Where a run keeps its preset, beside its checkpoints and curves.
RUN_PRESET_NAME = "preset"
FORMAT_VERSION = 1
KINDS = ("BertBackbone", "BertPretrainer", "BertTextClassifier")


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
class _Header:
    """config.json without `info`."""

    format_version: int
    kind: str
    model: BertConfig
    lowercase: bool
    vocabulary_sha256: str
    num_classes: int | None = None
    classifier_dropout: float | None = None

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ConfigError(f"`format_version` must be {FORMAT_VERSION}. Received: {self.format_version}")
        if self.kind not in KINDS:
            raise ConfigError(f"`kind` must be one of {', '.join(KINDS)}. Received: {self.kind!r}")
        if (self.kind == "BertTextClassifier") != (self.num_classes is not None):
            raise ConfigError(
                f"`num_classes` belongs to a BertTextClassifier, and only there. Received: {self.num_classes} "
                f"with kind {self.kind}"
            )

    def build(self, dtype: Any) -> keras.Model:
        """Returns a new model of this kind."""
        backbone = _class("BertBackbone")(self.model, dtype=dtype)
        if self.kind == "BertBackbone":
            return backbone
        if self.kind == "BertPretrainer":
            return _class(self.kind)(backbone)
        dropout = {} if self.classifier_dropout is None else {"dropout": self.classifier_dropout}
        return _class(self.kind)(backbone, num_classes=self.num_classes, **dropout)


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
        model: a `BertBackbone`, `BertPretrainer` or `BertTextClassifier`; its optimizer is not kept.
        directory: does not exist, is empty or holds a preset.
        vocabulary: as long as the model's token embedding.
        lowercase: whether the tokenizer lower-cases.
        task: content of task.json; `None` writes none.
        info: anything worth knowing that JSON can hold.

    Raises:
        ConfigError: when the vocabulary does not fit, `model` is none of ours, or `directory` holds anything
            but a preset.
    """
    directory = Path(directory)
    header = _header(model, vocabulary, lowercase)
    check_replaceable(directory, (CONFIG_NAME, VOCABULARY_NAME, WEIGHTS_NAME, TASK_NAME), CONFIG_NAME)

    def write(staging: Path) -> None:
        save_json(to_dict(header) | {"info": dict(info or {})}, staging / CONFIG_NAME)
        save_vocabulary(vocabulary, staging / VOCABULARY_NAME)
        if task is not None:
            save_json(task, staging / TASK_NAME)
        write_weights(model, staging / WEIGHTS_NAME)
        _read(staging)

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
    directory = preset_directory(Path(directory))
    header, vocabulary, task, info = _read(directory)
    model = header.build(dtype)
    read_weights(model, directory / WEIGHTS_NAME)
    return Preset(model, header.model, vocabulary, header.lowercase, header.kind, task, info)


def preset_directory(directory: Path) -> Path:
    """Returns `directory`, or `directory/preset` where a run put its preset there."""
    of_run = directory / RUN_PRESET_NAME
    return of_run if (of_run / CONFIG_NAME).is_file() and not (directory / CONFIG_NAME).is_file() else directory


def load_backbone(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads a preset of any kind and keeps its encoder: `model` is a BertBackbone, `kind` says so.

    Arguments and errors are those of `load_preset`. `task` stays as it was read.
    """
    preset = load_preset(directory, dtype)
    backbone = getattr(preset.model, "backbone", preset.model)
    return Preset(
        backbone, preset.config, preset.vocabulary, preset.lowercase, "BertBackbone", preset.task, preset.info
    )


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


def _header(model: keras.Model, vocabulary: Vocabulary, lowercase: bool) -> _Header:
    kind = type(model).__name__
    if kind not in KINDS or not isinstance(model, _class(kind)):
        raise ConfigError(f"`model` must be one of {', '.join(KINDS)}. Received: {type(model)}")
    config = getattr(model, "backbone", model).config
    _check_vocabulary(vocabulary, config, "`vocabulary`")
    return _Header(
        format_version=FORMAT_VERSION,
        kind=kind,
        model=config,
        lowercase=lowercase,
        vocabulary_sha256=vocabulary.fingerprint,
        num_classes=getattr(model, "num_classes", None),
        classifier_dropout=getattr(model, "dropout", None),
    )


def _read(directory: Path) -> tuple[_Header, Vocabulary, dict[str, Any] | None, dict[str, Any]]:
    """Returns all but the weights."""
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
    header = from_dict(_Header, mapping, str(path))
    vocabulary = load_vocabulary(directory / VOCABULARY_NAME)
    _check_vocabulary(vocabulary, header.model, str(directory / VOCABULARY_NAME))
    if vocabulary.fingerprint != header.vocabulary_sha256:
        raise ConfigError(
            f"{directory / VOCABULARY_NAME}: not the vocabulary of {CONFIG_NAME}: its SHA-256 must be "
            f"{header.vocabulary_sha256}. Received: {vocabulary.fingerprint}"
        )
    task_path = directory / TASK_NAME
    return header, vocabulary, read_json_object(task_path) if task_path.exists() else None, info


def _check_vocabulary(vocabulary: Vocabulary, config: BertConfig, source: str) -> None:
    if len(vocabulary) != config.vocabulary_size:
        raise ConfigError(
            f"{source}: must have as many tokens as the model's `vocabulary_size`, {config.vocabulary_size}. "
            f"Received: {len(vocabulary)}"
        )
