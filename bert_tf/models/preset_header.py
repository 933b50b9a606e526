"""Description of a preset, without its weights: config.json, vocab.txt and task.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError, from_dict, save_json
from bert_tf.config.base import read_json_object
from bert_tf.config.preset_names import CONFIG_NAME
from bert_tf.models.kinds import MODEL_KINDS
from bert_tf.models.serialization import checked_model, configs_of, serialize_model, upgraded
from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary, load_byte_pairs
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary, save_vocabulary

TASK_NAME = "task.json"
# A preset holds one of them.
VOCABULARY_NAMES = (Vocabulary.file_name, BytePairVocabulary.file_name)
FORMAT_VERSION = 2


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
    """Returns a header with the values of all arguments of its model; see `serialization.checked_model` for errors."""
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
