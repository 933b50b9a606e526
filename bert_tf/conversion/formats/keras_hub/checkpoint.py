"""Reads and writes keras-hub presets (formerly keras-nlp).

keras-hub's BertBackbone has a fixed activation (tanh-approximated gelu) and epsilon. Its masked language model's head
has other values: exact gelu and 1e-5.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from bert_tf.config import BertConfig, ConfigError, save_json
from bert_tf.conversion.checkpoint import Checkpoint, Options, fitted_vocabulary, has_keys, read_json
from bert_tf.conversion.formats.keras_hub import config as configs
from bert_tf.conversion.formats.keras_hub import weights
from bert_tf.conversion.formats.keras_hub.config import Remembered, Task
from bert_tf.conversion.formats.name_table import most_common_dtype
from bert_tf.conversion.tensors import ConversionError, Heads
from bert_tf.text.casing import is_lowercase
from bert_tf.text.vocabulary import save_vocabulary

logger = logging.getLogger(__name__)

_VOCABULARY = Path("assets", "tokenizer", "vocabulary.txt")


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a directory with a serialized Keras object and its weights."""
    has_weights = any((path / name).is_file() for name in (weights.WEIGHTS_NAME, weights.INDEX_NAME))
    return has_weights and has_keys(path / configs.CONFIG_NAME, {"class_name", "config"})


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a preset that is not quantized."""
    _check_files(path)
    config = configs.read_backbone(read_json(path / configs.CONFIG_NAME), path / configs.CONFIG_NAME)
    remembered, versions = configs.read_metadata(path / configs.METADATA_NAME)
    task = _task(path, config)
    try:
        config = replace(config, initializer_range=remembered.initializer_range)
    except ConfigError as error:
        raise ConversionError(f"{path / configs.METADATA_NAME}: {error}") from error
    heads = task.heads if task else Heads()
    if heads.masked_lm:
        config = replace(config, mlm_activation=configs.MLM_ACTIVATION, mlm_layer_norm_epsilon=configs.MLM_EPSILON)
    stored = weights.read_weights(path, task=bool(heads.names()))
    tensors = weights.TABLE.read(stored, config, heads, path)
    left_out: list[str] = []
    step = remembered.step
    if heads.names():
        left_out, trained = weights.optimizer_state(path / weights.TASK_WEIGHTS_NAME)
        step = step if step is not None else trained
    elif task:
        left_out = [f"{configs.TASK_NAME}: {task.name} {dict(task.arguments)}"]
    vocabulary = fitted_vocabulary(path / _VOCABULARY, config.vocabulary_size, options)
    tokenizer = path / configs.TOKENIZER_NAME
    lowercase = configs.read_tokenizer(tokenizer) if tokenizer.is_file() else None
    if options.lowercase is not None:
        lowercase = options.lowercase
    if lowercase is None and vocabulary:
        lowercase = is_lowercase(vocabulary)
    return Checkpoint(
        form="keras_hub",
        path=path,
        config=config,
        heads=heads,
        tensors=tensors,
        vocabulary=vocabulary,
        lowercase=lowercase,
        dtype=most_common_dtype(stored.values()),
        labels=_labels(remembered, heads, path),
        step=step,
        classifier_dropout=task.dropout if task else None,
        left_out=tuple(left_out),
        info=versions | ({"task": task.name, **task.arguments} if task else {}),
    )


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes a preset and returns the heads that keras-hub has no class for."""
    _check_expressible(checkpoint)
    config, dtype = checkpoint.config, options.dtype or checkpoint.dtype
    heads, lost = _heads(checkpoint)
    save_json(configs.backbone_object(config, dtype), directory / configs.CONFIG_NAME)
    weights.write_weights(checkpoint, heads, directory, dtype, options.shard_bytes)
    preprocessor = None
    if checkpoint.vocabulary is not None and checkpoint.lowercase is not None:
        save_json(configs.tokenizer_object(checkpoint.lowercase), directory / configs.TOKENIZER_NAME)
        (directory / _VOCABULARY).parent.mkdir(parents=True)
        save_vocabulary(checkpoint.vocabulary.without_padding(), directory / _VOCABULARY)
        preprocessor = checkpoint.lowercase
    if heads.names():
        task = _written_task(checkpoint, heads)
        serialized = None if preprocessor is None else configs.preprocessor_object(task.name, config, preprocessor)
        if serialized:
            save_json(serialized, directory / configs.PREPROCESSOR_NAME)
        save_json(configs.task_object(task, config, dtype, serialized), directory / configs.TASK_NAME)
    labels = checkpoint.labels if heads.task else None
    remembered = Remembered(labels, checkpoint.step, config.initializer_range)
    save_json(configs.metadata_object(checkpoint.parameters(), remembered), directory / configs.METADATA_NAME)
    return lost


def _check_files(path: Path) -> None:
    adapters = sorted(file.name for file in path.glob("*.lora.h5"))
    if adapters:
        raise ConversionError(
            f"{path}: LoRA adapters must be merged first: load the preset with keras-hub and save it again. "
            f"Received: {', '.join(adapters)}"
        )
    if not (path / configs.CONFIG_NAME).is_file():
        raise ConversionError(f"{path}: must be a keras-hub preset: `{configs.CONFIG_NAME}` is missing.")
    if not any((path / name).is_file() for name in (weights.WEIGHTS_NAME, weights.INDEX_NAME)):
        raise ConversionError(f"{path}: must be a keras-hub preset: `{weights.WEIGHTS_NAME}` is missing.")
    # keras-hub opens the directory later and selects files by its own rules.
    for file in sorted(path.glob("*.h5")):
        weights.stored_tensors(file)


def _task(path: Path, config: BertConfig) -> Task | None:
    if not (path / configs.TASK_NAME).is_file():
        if (path / weights.TASK_WEIGHTS_NAME).is_file():
            raise ConversionError(f"{path}: `{configs.TASK_NAME}` must name the class of {weights.TASK_WEIGHTS_NAME}.")
        return None
    task = configs.read_task(path / configs.TASK_NAME, config)
    if task.heads.names() and not (path / weights.TASK_WEIGHTS_NAME).is_file():
        raise ConversionError(f"{path}: the weights of its {task.name}, {weights.TASK_WEIGHTS_NAME}, are missing.")
    return task


def _labels(remembered: Remembered, heads: Heads, path: Path) -> tuple[str, ...] | None:
    if remembered.labels and len(remembered.labels) != heads.num_labels:
        raise ConversionError(
            f"{path / configs.METADATA_NAME}: `labels` must have one entry per class, {heads.num_labels}. "
            f"Received: {len(remembered.labels)}"
        )
    return remembered.labels


def _check_expressible(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    wanted = {
        "activation": configs.ACTIVATION,
        "layer_norm_epsilon": configs.EPSILON,
        "attention": "bidirectional",
        "pooler": True,
    }
    faults = [
        f"`{name}` must be {value!r}. Received: {getattr(config, name)!r}"
        for name, value in wanted.items()
        if getattr(config, name) != value
    ]
    if config.attention_dropout not in (None, config.dropout):
        faults.append(
            f"`attention_dropout` must equal `dropout`, {config.dropout}. Received: {config.attention_dropout}"
        )
    if faults:
        raise ConversionError(
            f"{checkpoint.path}: keras-hub's BertBackbone cannot represent this encoder:\n  " + "\n  ".join(faults)
        )


def _heads(checkpoint: Checkpoint) -> tuple[Heads, list[str]]:
    heads, config = checkpoint.heads, checkpoint.config
    kept = Heads()
    if heads.task == "sequence_classification":
        kept = Heads(task=heads.task, num_labels=heads.num_labels)
    elif heads.masked_lm and config.mlm_head == (configs.MLM_ACTIVATION, configs.MLM_EPSILON):
        kept = Heads(masked_lm=True)
    elif heads.masked_lm:
        logger.warning(
            "masked_lm: the head is left out, because keras-hub's BertMaskedLM must have activation %s and epsilon %s. "
            "Received: %s and %s", configs.MLM_ACTIVATION, configs.MLM_EPSILON, *config.mlm_head
        )  # fmt: skip
    return kept, [name for name in heads.names() if name not in kept.names()]


def _written_task(checkpoint: Checkpoint, heads: Heads) -> Task:
    if heads.masked_lm:
        return Task("BertMaskedLM", heads, None, {})
    dropout = 0.1 if checkpoint.classifier_dropout is None else checkpoint.classifier_dropout
    arguments = {"num_classes": heads.num_labels, "activation": "linear", "dropout": dropout}
    return Task("BertTextClassifier", heads, dropout, arguments)
