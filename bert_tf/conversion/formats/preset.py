"""Reads and writes the presets of this project.

Attention projects from H to N heads of width D and back, so kernels are (H, N, D) and (N, D, H) in a preset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_tf.config import BertConfig, ConfigError
from bert_tf.config.base import read_json_object
from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.tensors import (
    FIXED_OUTPUTS,
    MLM_BIAS,
    TASK_HEADS,
    TASK_PREFIXES,
    WORD_EMBEDDINGS,
    ConversionError,
    Heads,
    Tensor,
    check_tensors,
    expected_shapes,
)
from bert_tf.models import (
    BertBackbone,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTextClassifier,
    BertTokenClassifier,
    save_preset,
)
from bert_tf.models.preset_files import stored_shapes
from bert_tf.models.presets import CONFIG_NAME, WEIGHTS_NAME, PresetHeader, preset_directory, read_header
from bert_tf.models.weight_file import read_array

_EMBEDDINGS = {
    WORD_EMBEDDINGS: "embeddings/token_embedding/embeddings",
    "bert/embeddings/token_type_embeddings": "embeddings/segment_embedding",
    "bert/embeddings/position_embeddings": "embeddings/position_embedding",
    "bert/embeddings/LayerNorm": "embeddings/layer_norm",
}
_LAYER = {
    "attention/self/query": "self_attention_layer/query",
    "attention/self/key": "self_attention_layer/key",
    "attention/self/value": "self_attention_layer/value",
    "attention/output/dense": "self_attention_layer/attention_output",
    "attention/output/LayerNorm": "self_attention_layer_norm",
    "intermediate/dense": "feedforward_intermediate_dense",
    "output/dense": "feedforward_output_dense",
    "output/LayerNorm": "feedforward_layer_norm",
}
_HEADS = {
    "bert/pooler/dense": "pooler",
    MLM_BIAS: "mlm_logits/output_bias",
    "cls/predictions/transform/dense": "mlm_logits/dense",
    "cls/predictions/transform/LayerNorm": "mlm_logits/layer_norm",
    "cls/seq_relationship/output_weights": "nsp_logits/dense/kernel",
    "cls/seq_relationship/output_bias": "nsp_logits/dense/bias",
} | {
    f"{prefix}{ours}": theirs
    for prefix in TASK_PREFIXES.values()
    for ours, theirs in (("output_weights", "logits/kernel"), ("output_bias", "logits/bias"))
}


def weight_path(name: str) -> str:
    """Returns the path of the model's variable for a tensor of the original's name."""
    for ours, theirs in (_EMBEDDINGS | _HEADS).items():
        if name == ours or name.startswith(f"{ours}/"):
            return theirs + name[len(ours) :]
    layer, _, rest = name.removeprefix("bert/encoder/layer_").partition("/")
    part, _, kind = rest.rpartition("/")
    return f"layer_{int(layer) + 1}/{_LAYER[part]}/{kind}"


def to_weight(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the array of a tensor in the layout of the model's variable with shape `shape`."""
    return (array.T if name.endswith("output_weights") else array).reshape(shape)


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a preset, or a run that holds one."""
    return (preset_directory(path) / WEIGHTS_NAME).is_file() and _keys(preset_directory(path))


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a preset; its arrays are read on demand.

    Args:
        path: directory of the preset, or of a run that holds one.
        options: settings of the conversion.

    Raises:
        ConversionError: for a path that is not a preset or is damaged.
    """
    directory = preset_directory(path)
    try:
        header, vocabulary, task, info = read_header(directory)
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    if only_ours(header):
        raise ConversionError(f"{directory}: no other format supports {only_ours(header)}.")
    heads = _heads(header)
    source = info.get("conversion", {})
    tensors = dict(_tensors(directory / WEIGHTS_NAME, header.model, heads))
    check_tensors(tensors, header.model, heads, directory / WEIGHTS_NAME)
    return Checkpoint(
        form="preset",
        path=directory,
        config=header.model,
        heads=heads,
        tensors=tensors,
        vocabulary=vocabulary,
        lowercase=header.lowercase,
        dtype=source.get("dtype", "float32"),
        labels=tuple(task["labels"]) if task and task.get("labels") else None,
        step=info.get("step", source.get("step")),
        classifier_dropout=header.classifier_dropout,
        info=source.get("info", {}),
    )


def only_ours(header: PresetHeader) -> str:
    """Returns a description of the part of a preset that no other format supports; "" if absent."""
    if header.kind in ("BertFeatureTagger", "BertProbe"):
        return f"a {header.kind}"
    if header.pooling not in (None, "first"):
        return f"a classifier with `pooling` = {header.pooling!r}"
    return "" if header.bilstm_dim is None else "a BiLSTM between the encoder and its head"


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes a preset to an empty directory; no head is lost.

    Args:
        checkpoint: checkpoint to write.
        directory: empty directory to write to.
        options: settings of the conversion.

    Raises:
        ConversionError: if the checkpoint has no vocabulary or casing, or has heads that no single model supports.
    """
    if checkpoint.vocabulary is None or checkpoint.lowercase is None:
        missing = "vocabulary" if checkpoint.vocabulary is None else "casing"
        flag = "--vocabulary vocab.txt" if checkpoint.vocabulary is None else "--lowercase true or false"
        raise ConversionError(f"{checkpoint.path}: its {missing} is unknown, which a preset needs. Add {flag}.")
    model = build_model(checkpoint)
    info = {"conversion": _origin(checkpoint)}
    save_preset(model, directory, checkpoint.vocabulary, checkpoint.lowercase, _task(checkpoint, options), info)
    return []


def build_model(checkpoint: Checkpoint) -> keras.Model:
    """Builds a float32 model with the weights of a checkpoint.

    Args:
        checkpoint: checkpoint with the weights.

    Raises:
        ConversionError: if no single model supports its heads.
    """
    heads, backbone = checkpoint.heads, BertBackbone(checkpoint.config, dtype="float32")
    model: keras.Model = backbone
    if heads.task and (heads.masked_lm or heads.next_sentence):
        raise ConversionError(
            f"{checkpoint.path}: a preset has heads of pre-training or of a task. Received: {', '.join(heads.names())}"
        )
    dropout = 0.1 if checkpoint.classifier_dropout is None else checkpoint.classifier_dropout
    if heads.task in ("sequence_classification", "token_classification"):
        kind = BertTextClassifier if heads.task == "sequence_classification" else BertTokenClassifier
        model = kind(backbone, num_classes=heads.num_labels or 0, dropout=dropout)
    elif heads.task == "question_answering":
        model = BertSpanPredictor(backbone)
    elif heads.task == "multiple_choice":
        model = BertMultipleChoice(backbone, dropout=dropout)
    elif heads.names():
        model = BertPretrainer(backbone, masked_lm=heads.masked_lm, next_sentence=heads.next_sentence)
    weights = {weight.path: weight for weight in model.weights}
    for name in expected_shapes(checkpoint.config, heads):
        weight = weights.pop(weight_path(name))
        weight.assign(to_weight(name, checkpoint.array(name), tuple(weight.shape)))
    if weights:
        raise RuntimeError(f"every weight must have a tensor in a checkpoint. Received: none for {sorted(weights)}")
    return model


def _keys(directory: Path) -> bool:
    try:
        return "format_version" in read_json_object(directory / CONFIG_NAME)
    except (ConfigError, OSError):
        return False


def _heads(header: PresetHeader) -> Heads:
    if header.kind == "BertPretrainer":
        return Heads(masked_lm=header.masked_lm, next_sentence=header.next_sentence)
    return Heads(task=TASK_HEADS.get(header.kind), num_labels=header.num_classes)


def _tensors(path: Path, config: BertConfig, heads: Heads) -> Iterator[tuple[str, Tensor]]:
    names = {weight_path(name): (name, shape) for name, shape in expected_shapes(config, heads).items()}
    try:
        shapes = stored_shapes(path)
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    for weight, shape in shapes.items():
        name, wanted = names.get(weight, (weight, shape))
        fits = np.prod(shape) == np.prod(wanted)
        yield name, Tensor(weight, wanted if fits else shape, partial(_array, path, weight, name, wanted))


def _array(path: Path, weight: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = read_array(path, weight)
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    return array.T.reshape(shape) if name.endswith("output_weights") else array.reshape(shape)


def _task(checkpoint: Checkpoint, options: Options) -> Mapping[str, Any] | None:
    if not checkpoint.heads.task:
        return options.describe({}, checkpoint.config) if options.describe else None
    task: dict[str, Any] = {"task": checkpoint.heads.task}
    if checkpoint.heads.num_labels and checkpoint.heads.task not in FIXED_OUTPUTS:
        # Predictions are reported by name; classes without a name get the one that transformers would use.
        task["labels"] = list(checkpoint.labels or (f"LABEL_{n}" for n in range(checkpoint.heads.num_labels)))
    if checkpoint.heads.task == "sequence_classification":
        task["text_columns"] = options.text_columns
    return options.describe(task, checkpoint.config) if options.describe else task


def _origin(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "form": checkpoint.form,
        "dtype": checkpoint.dtype,
        "step": checkpoint.step,
        "left_out": list(checkpoint.left_out),
        "info": dict(checkpoint.info),
    }
