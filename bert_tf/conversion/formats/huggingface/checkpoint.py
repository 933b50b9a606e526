"""Reads and writes checkpoint directories of Hugging Face transformers.

config.json                 architecture and classes of a task
model.safetensors           weights, or shards with an index; pytorch_model.bin is read as well
vocab.txt, tokenizer.json   word pieces and settings of the tokenizer
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from bert_tf.config import save_json
from bert_tf.conversion.checkpoint import DTYPES, Checkpoint, Options, fitted
from bert_tf.conversion.formats.huggingface import config as configs
from bert_tf.conversion.formats.huggingface import modernbert
from bert_tf.conversion.formats.huggingface import names as layout
from bert_tf.conversion.formats.huggingface.tokenizer import read_tokenizer, write_byte_pairs, write_tokenizer
from bert_tf.conversion.formats.huggingface.weights import NAMES, OTHER_NAMES, read_weights, write_shards
from bert_tf.conversion.formats.name_table import StoredTensor
from bert_tf.conversion.tensors import ConversionError, Heads, checked_rate, expected_shapes
from bert_tf.text.byte_pair_vocabulary import BytePairVocabulary
from bert_tf.text.casing import is_lowercase

_NUMBERS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
_DROPPING = ("sequence_classification", "token_classification", "multiple_choice")


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a directory with config.json and weights under the library's names."""
    return (path / configs.CONFIG_NAME).is_file() and any((path / name).is_file() for name in (*NAMES, *OTHER_NAMES))


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a directory of Hugging Face transformers."""
    file = path / configs.CONFIG_NAME
    if not file.is_file():
        raise ConversionError(f"{path}: must be a directory with config.json. Received: no such file")
    config = configs.read_config(file)
    name = configs.architecture(config, file)
    table, pooling = layout.TABLE, "first"
    if configs.is_modern(config):
        table, architecture = modernbert.TABLE, modernbert.encoder_config(config, file)
        weights, left_out = modernbert.common_names(read_weights(path), path)
        heads, names = _labelled(modernbert.heads_of(weights, name, path), config, file)
        pooling = _pooling(config, heads, file)
    else:
        # Only the weights show whether there is a pooler. `common_names` uses the configuration for the positions.
        with_pooler = configs.encoder_config(config, file, pooler=True)
        weights, left_out = layout.common_names(read_weights(path), with_pooler, path)
        heads, names = _heads(weights, left_out, name, config, path)
        architecture = configs.encoder_config(config, file, layout.POOLER in weights)
    tensors = table.read(weights, architecture, heads, path)
    tokenizer = read_tokenizer(path, config.get("tokenizer_class"), options.vocabulary_path)
    vocabulary, lowercase = tokenizer.vocabulary, tokenizer.lowercase
    if vocabulary is not None:
        rows = architecture.vocabulary_size
        padded = options.padded_vocabulary or configs.padded_length(config, len(vocabulary)) == rows
        vocabulary = fitted(vocabulary, rows, tokenizer.source, padded=padded)
        if lowercase is None:
            lowercase = is_lowercase(vocabulary)
    # None is the rate of the encoder.
    rate = checked_rate(config.get("classifier_dropout"), f"{file}: `classifier_dropout`")
    dtypes = {tensor.dtype for tensor in weights.values()}
    return Checkpoint(
        form="huggingface",
        path=path,
        config=architecture,
        heads=heads,
        tensors=tensors,
        vocabulary=vocabulary,
        lowercase=lowercase if options.lowercase is None else options.lowercase,
        # The dtype that holds all tensors exactly.
        dtype=dtypes.pop() if len(dtypes) == 1 else "float32",
        labels=names,
        classifier_dropout=(architecture.dropout if rate is None else rate) if heads.task in _DROPPING else None,
        pooling=pooling,
        left_out=left_out,
        info={configs.INFO_KEY: {"config": configs.kept(config)} | tokenizer.info()},
    )


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes the files of `save_pretrained`; loses pre-training heads beside that of a task, as no class has both."""
    heads, lost = checkpoint.heads, []
    if heads.task:
        lost = Heads(heads.masked_lm, heads.next_sentence).names()
        heads = Heads(task=heads.task, num_labels=heads.num_labels)
    dtype = options.dtype or checkpoint.dtype
    if dtype not in DTYPES:
        raise ConversionError(f"`dtype` must be one of {', '.join(DTYPES)}. Received: {dtype!r}")
    pieces = None if checkpoint.vocabulary is None else checkpoint.vocabulary.without_padding()
    if pieces is not None:
        if checkpoint.lowercase is None:
            raise ConversionError(f"{checkpoint.path}: its casing is unknown. Add --lowercase true or false.")
        info = checkpoint.info.get(configs.INFO_KEY, {})
        longest = info.get("model_max_length", checkpoint.config.max_sequence_length)
        if isinstance(pieces, BytePairVocabulary):
            write_byte_pairs(directory, pieces, longest)
        else:
            write_tokenizer(directory, pieces, checkpoint.lowercase, longest, tuple(info.get("added_tokens", ())))
    length = None if pieces is None else len(pieces)
    save_json(configs.written_config(checkpoint, heads, dtype, length), directory / configs.CONFIG_NAME)
    _write_weights(checkpoint, heads, dtype, directory, options.shard_bytes)
    return lost


def _heads(
    weights: Mapping[str, StoredTensor],
    left_out: tuple[str, ...],
    name: str | None,
    config: Mapping[str, Any],
    path: Path,
) -> tuple[Heads, tuple[str, ...] | None]:
    heads = layout.heads_of(weights, name, config, path)
    copied = any(left.endswith("decoder.weight") for left in left_out)
    if heads.masked_lm and config.get("tie_word_embeddings") is False and not copied:
        raise ConversionError(
            f"{path / configs.CONFIG_NAME}: `tie_word_embeddings` must be true without a tensor "
            f"`cls.predictions.decoder.weight`. Received: False"
        )
    return _labelled(heads, config, path / configs.CONFIG_NAME)


def _labelled(heads: Heads, config: Mapping[str, Any], file: Path) -> tuple[Heads, tuple[str, ...] | None]:
    """Returns the heads with the number of classes, and their names."""
    if heads.task not in ("sequence_classification", "token_classification"):
        return heads, None
    number, names = configs.labels(config, file)
    if heads.task == "sequence_classification":
        configs.check_problem(config, number, file)
    return Heads(task=heads.task, num_labels=number), names


def _pooling(config: Mapping[str, Any], heads: Heads, file: Path) -> str:
    """Returns the pooling of a text classifier of ModernBERT."""
    value = config.get("classifier_pooling", "cls")
    allowed = {"sequence_classification": ("cls", "mean"), "multiple_choice": ("cls",)}.get(heads.task or "")
    if allowed is None:
        return "first"
    if value not in allowed:
        raise ConversionError(f"{file}: `classifier_pooling` must be {' or '.join(allowed)}. Received: {value!r}")
    return modernbert.POOLING_NAMES[value]


def _write_weights(checkpoint: Checkpoint, heads: Heads, dtype: str, directory: Path, limit: int) -> None:
    numbers = np.dtype(_NUMBERS[dtype])
    shapes = expected_shapes(checkpoint.config, heads)
    table = modernbert.TABLE if checkpoint.config.differences_from_bert else layout.TABLE
    named = {ours: table.name(ours) for ours in shapes}
    if table is modernbert.TABLE:
        originals = dict(modernbert.written_names(named))
        if not heads.names():
            originals = {name.removeprefix("model."): parts for name, parts in originals.items()}
    else:
        prefix = "bert." if heads.names() else ""
        originals = {(prefix if ours.startswith("bert/") else "") + name: (ours,) for ours, name in named.items()}
    sizes = {
        name: sum(int(np.prod(shapes[part])) for part in parts) * numbers.itemsize for name, parts in originals.items()
    }

    def array(name: str) -> np.ndarray:
        values = np.concatenate([table.array(part, checkpoint) for part in originals[name]])
        with np.errstate(over="ignore"):
            cast = np.ascontiguousarray(values.astype(numbers))
        if not np.isfinite(cast.astype(np.float32)).all():
            largest = float(np.abs(values).max())
            raise ConversionError(f"{checkpoint.path}: `{name}` does not fit {dtype}. Received: up to {largest:.4g}")
        return cast

    write_shards(sizes, directory, array, limit)
