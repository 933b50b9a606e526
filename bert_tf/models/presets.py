"""Presets: a model, its vocabulary and its task settings in one directory.

    config.json        `format_version`, serialized `model`, `lowercase`, fingerprint of the
                       vocabulary, `info`, SHA-256 of the weights
    vocab.txt          one word piece per line
    model.weights.h5   one dataset per weight, named by the variable's path
    task.json          for fine-tuned models: labels, text columns, lengths; any JSON object

A preset is written to a staging directory and then renamed. Reading validates strictly. Checkpoints of runs and of
other programs are read as presets too (see `preset_sources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import BertConfig, ConfigError
from bert_tf.config.files import check_replaceable, replace_directory, sha256_of
from bert_tf.config.preset_names import CONFIG_NAME
from bert_tf.models.kinds import MODEL_KINDS
from bert_tf.models.preset_header import TASK_NAME, VOCABULARY_NAMES, check_vocabulary, read_header, write_header
from bert_tf.models.preset_sources import WEIGHTS_NAME, PresetSource, open_preset
from bert_tf.models.weights import write_weights
from bert_tf.storage import working_copy
from bert_tf.text.vocabulary import Vocabulary

# Verification record of a conversion.
PARITY_NAME = "parity.json"


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
        >>> preset = bert_tf.load_preset("runs/laptop")  # written by `bert-tf pretrain --output runs/laptop`
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
    check_vocabulary(vocabulary, encoder_of(model).config, "`vocabulary`")

    def write(staging: Path) -> None:
        write_weights(model, staging / WEIGHTS_NAME)
        digest = sha256_of(staging / WEIGHTS_NAME)
        write_header(model, staging, vocabulary, lowercase, task, info, digest)
        read_header(staging)

    with working_copy(directory) as path:
        check_replaceable(path, (CONFIG_NAME, *VOCABULARY_NAMES, WEIGHTS_NAME, TASK_NAME, PARITY_NAME), CONFIG_NAME)
        replace_directory(path, write)


def load_preset(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads a preset.

    Args:
        directory: preset directory, output directory of a run, `RUN@STEP` for a checkpoint of a run, or a checkpoint of
            another program, which is converted in memory: a directory of transformers (`hf:DIRECTORY` also works), of
            keras-hub, or with a TensorFlow checkpoint of google-research/bert or of the Model Garden; also a URL.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The preset with its model.

    Raises:
        ConfigError: for a missing or unreadable file, an unknown key, or a vocabulary or weights that do not match the
            model; the message names the file and the field.

    Example:
        >>> preset = bert_tf.load_preset("runs/laptop")  # written by `bert-tf pretrain --output runs/laptop`
        >>> type(preset.model).__name__, preset.config.num_layers
        ('BertPretrainer', 2)
        >>> bert_tf.load_preset("runs/laptop", dtype="mixed_bfloat16").model.dtype_policy.name
        'mixed_bfloat16'
    """
    source = open_preset(directory)
    preset = loaded(source, dtype)
    source.announce(preset.model)
    return preset


def loaded(source: PresetSource, dtype: Any = None) -> Preset:
    """Returns the preset of a source, with its model."""
    header = source.header
    return Preset(
        source.model(dtype), header.config, source.vocabulary, header.lowercase, header.kind, source.task, header.info
    )


def load_backbone(directory: str | Path, dtype: Any = None) -> Preset:
    """Reads the encoder of a preset of any kind.

    Args:
        directory: see `load_preset`.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The preset with a BertBackbone as `model`, kind `BertBackbone` and the `task` of the original preset.

    Raises:
        ConfigError: see `load_preset`.

    Example:
        >>> preset = bert_tf.load_backbone("runs/laptop")  # the encoder without the pre-training heads
        >>> tokenizer = bert_tf.tokenizer_of(preset.vocabulary, preset.lowercase)
        >>> inputs = bert_tf.pack([tokenizer.ids(["a good film", "dull"])], preset.vocabulary, 32)
        >>> keras.ops.shape(preset.model(inputs)["pooled_output"])
        (2, 128)
    """
    source = open_preset(directory)
    preset = loaded(source, dtype)
    backbone = encoder_of(preset.model)
    backbone.trainable = True
    source.announce(backbone)
    return replace(preset, model=backbone, kind="BertBackbone")


def encoder_of(model: keras.Model) -> Any:
    """Returns the BertBackbone of a model of this package."""
    while hasattr(model, "backbone"):
        model = model.backbone
    return model
