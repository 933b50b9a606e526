"""Reads and writes the presets of this project."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import to_dict
from bert_tf.config.preset_names import FOREIGN, find_preset
from bert_tf.conversion.checkpoint import Checkpoint, Options, conversion_errors
from bert_tf.conversion.formats.name_table import NameTable, StoredTensor
from bert_tf.conversion.tensors import FIXED_OUTPUTS, MLM_BIAS, WORD_EMBEDDINGS, ConversionError, Heads, expected_shapes
from bert_tf.models import MODEL_KINDS, save_preset
from bert_tf.models.preset_header import FORMAT_VERSION, PresetHeader, checked_header, deserialize_model, serialized
from bert_tf.models.preset_sources import WEIGHTS_NAME, open_preset
from bert_tf.models.weights import Weights
from bert_tf.text.vocabulary import Vocabulary

_ATTENTION = "layer_{next}/self_attention_layer"
_OUTPUTS = ("", "cls/token", "cls/squad", "cls/choice")
TABLE = NameTable(
    rows={
        WORD_EMBEDDINGS: "embeddings/token_embedding/embeddings",
        "bert/embeddings/token_type_embeddings": "embeddings/segment_embedding",
        "bert/embeddings/position_embeddings": "embeddings/position_embedding",
        "bert/embeddings/LayerNorm": "embeddings/layer_norm",
        "bert/encoder/layer_{i}/attention/self/query": f"{_ATTENTION}/query",
        "bert/encoder/layer_{i}/attention/self/key": f"{_ATTENTION}/key",
        "bert/encoder/layer_{i}/attention/self/value": f"{_ATTENTION}/value",
        "bert/encoder/layer_{i}/attention/output/dense": f"{_ATTENTION}/attention_output",
        "bert/encoder/layer_{i}/attention/output/LayerNorm": f"{_ATTENTION}_norm",
        "bert/encoder/layer_{i}/intermediate/dense": "layer_{next}/feedforward_intermediate_dense",
        "bert/encoder/layer_{i}/output/dense": "layer_{next}/feedforward_output_dense",
        "bert/encoder/layer_{i}/output/LayerNorm": "layer_{next}/feedforward_layer_norm",
        "bert/encoder/LayerNorm": "final_layer_norm",
        "bert/pooler/dense": "pooler",
        "cls/head/dense": "head_dense",
        "cls/head/LayerNorm": "head_layer_norm",
        MLM_BIAS: "mlm_logits/output_bias",
        "cls/predictions/transform/dense": "mlm_logits/dense",
        "cls/predictions/transform/LayerNorm": "mlm_logits/layer_norm",
        "cls/seq_relationship": "nsp_logits/dense",
        **dict.fromkeys(_OUTPUTS, "logits"),
    },
    kinds={kind: f"/{kind}" for kind in ("kernel", "bias", "gamma", "beta")}
    | {"output_weights": "/kernel", "output_bias": "/bias"},
    transposed=("output_weights",),
    by_head=True,
)


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a preset, a checkpoint of a run, or a run that holds a preset."""
    directory, kind = find_preset(path)
    return kind == "checkpoint" or (kind == "preset" and (directory / WEIGHTS_NAME).is_file())


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a preset, the preset of a run, or a checkpoint of a run."""
    directory, kind = find_preset(path)
    if kind in FOREIGN:
        raise ConversionError(f"{directory}: must be a preset. Received: a checkpoint of the format {kind}")
    with conversion_errors():
        source = open_preset(directory)
    header, task, info = source.header, source.task, source.header.info
    if only_ours(header):
        raise ConversionError(f"{directory}: no other format supports {only_ours(header)}.")
    heads = _heads(header)
    origin = info.get("conversion", {})
    tensors = TABLE.read(_stored(source.weights, directory), header.config, heads, source.weights)
    with conversion_errors():
        source.check_digest()
    return Checkpoint(
        form="preset",
        path=directory,
        config=header.config,
        heads=heads,
        tensors=tensors,
        vocabulary=source.vocabulary,
        lowercase=header.lowercase,
        dtype=origin.get("dtype", "float32"),
        labels=tuple(task["labels"]) if task and task.get("labels") else None,
        step=info.get("step", origin.get("step")),
        classifier_dropout=header.arguments.get("dropout"),
        pooling=header.arguments.get("pooling", "first"),
        info=origin.get("info", {}),
    )


def only_ours(header: PresetHeader) -> str:
    """Returns a description of the part of a preset that no other format supports; "" if absent."""
    if not MODEL_KINDS[header.kind].convertible:
        return f"a {header.kind}"
    pooling = header.arguments.get("pooling", "first")
    allowed = ("first",) if header.config.heads_need_pooler else ("first", "mean")
    if pooling not in allowed:
        return f"a classifier with `pooling` = {pooling!r}"
    return "a BiLSTM between the encoder and its head" if "bilstm_dim" in header.arguments else ""


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes a preset; no head is lost. Raises ConversionError without a vocabulary or casing."""
    vocabulary, lowercase = text_settings(checkpoint)
    task, info = task_json(checkpoint, options), header_of(checkpoint).info
    save_preset(build_model(checkpoint), directory, vocabulary, lowercase, task, info)
    return []


def text_settings(checkpoint: Checkpoint) -> tuple[Vocabulary, bool]:
    """Returns vocabulary and lower-casing. Raises ConversionError if one of them is unknown."""
    if checkpoint.vocabulary is None or checkpoint.lowercase is None:
        missing = "vocabulary" if checkpoint.vocabulary is None else "casing"
        flag = "--vocabulary vocab.txt" if checkpoint.vocabulary is None else "--lowercase true or false"
        raise ConversionError(
            f"{checkpoint.path}: its {missing} is unknown, which a preset needs. Run `bert-tf convert --source "
            f"{checkpoint.form} {checkpoint.path} --target preset NEW {flag}`."
        )
    return checkpoint.vocabulary, checkpoint.lowercase


def header_of(checkpoint: Checkpoint) -> PresetHeader:
    """Returns the config.json of a preset. Raises ConversionError without a vocabulary or casing."""
    vocabulary, lowercase = text_settings(checkpoint)
    origin = {name: getattr(checkpoint, name) for name in ("form", "dtype", "step")}
    origin |= {"left_out": list(checkpoint.left_out), "info": dict(checkpoint.info)}
    model, info = _serialized_model(checkpoint), {"conversion": origin}
    header = PresetHeader(FORMAT_VERSION, model, lowercase, vocabulary.fingerprint, info)
    return checked_header(header, str(checkpoint.path))


def build_model(checkpoint: Checkpoint) -> keras.Model:
    """Builds a float32 model with a checkpoint's weights. Raises ConversionError if no single model has its heads."""
    model = deserialize_model(_serialized_model(checkpoint), "float32")
    weights = {weight.path: weight for weight in model.weights}
    for name in expected_shapes(checkpoint.config, checkpoint.heads):
        weights.pop(TABLE.name(name)).assign(TABLE.array(name, checkpoint))
    if weights:
        raise RuntimeError(f"every weight must have a tensor in a checkpoint. Received: none for {sorted(weights)}")
    return model


def _serialized_model(checkpoint: Checkpoint) -> dict[str, Any]:
    heads, backbone = checkpoint.heads, serialized("BertBackbone", {"config": to_dict(checkpoint.config)})
    if heads.task and (heads.masked_lm or heads.next_sentence):
        raise ConversionError(
            f"{checkpoint.path}: a preset has heads of pre-training or of a task. Received: {', '.join(heads.names())}"
        )
    if heads.task:
        kind = next(kind for kind in MODEL_KINDS.values() if kind.head and kind.head.name == heads.task)
        dropout = 0.1 if checkpoint.classifier_dropout is None else checkpoint.classifier_dropout
        values: dict[str, Any] = {"num_classes": heads.num_labels or 0, "dropout": dropout}
        values |= {} if checkpoint.pooling == "first" else {"pooling": checkpoint.pooling}
        arguments = {name: value for name, value in values.items() if name in kind.arguments}
        return serialized(kind.model.__name__, {"backbone": backbone, **arguments})
    if heads.names():
        arguments = {"masked_lm": heads.masked_lm, "next_sentence": heads.next_sentence}
        return serialized("BertPretrainer", {"backbone": backbone, **arguments})
    return backbone


def _heads(header: PresetHeader) -> Heads:
    head, arguments = MODEL_KINDS[header.kind].head, header.arguments
    return Heads(
        masked_lm=arguments.get("masked_lm", False),
        next_sentence=arguments.get("next_sentence", False),
        task=head.name if head else None,
        num_labels=arguments.get("num_classes"),
    )


@conversion_errors()
def _stored(weights: Weights, path: Path) -> dict[str, StoredTensor]:
    read = conversion_errors()(weights.read)
    return {
        name: StoredTensor(name, path, "float32", shape, partial(read, name))
        for name, shape in weights.shapes().items()
    }


def task_json(checkpoint: Checkpoint, options: Options) -> Mapping[str, Any] | None:
    """Returns the task.json of a preset, with what is known about the head; None without a task."""
    if not checkpoint.heads.task:
        return options.describe({}, checkpoint.config) if options.describe else None
    task: dict[str, Any] = {"task": checkpoint.heads.task}
    if checkpoint.heads.num_labels and checkpoint.heads.task not in FIXED_OUTPUTS:
        # Predictions are reported by name; classes without a name get the one that transformers would use.
        task["labels"] = list(checkpoint.labels or (f"LABEL_{n}" for n in range(checkpoint.heads.num_labels)))
    if checkpoint.heads.task == "sequence_classification":
        task["text_columns"] = options.text_columns
    return options.describe(task, checkpoint.config) if options.describe else task
