"""Reads and writes checkpoints of the original (google-research/bert), released or saved by its programs.

A path is a directory or a prefix: `bert_model.ckpt` or `model.ckpt-1000`, with `bert_config.json` and `vocab.txt`
beside it. Writes a `bert_model.ckpt` for `tf.train.init_from_checkpoint`. Its tensors are float32, as in the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.formats.name_table import NameTable, most_common_dtype
from bert_tf.conversion.formats.releases import CONFIG_NAME, read_config, release_fields, write_release
from bert_tf.conversion.formats.tf_checkpoint import (
    RELEASED_NAME,
    TensorFiles,
    find_prefix,
    is_object_based,
    needed_prefix,
    write_tensors,
)
from bert_tf.conversion.tensors import ConversionError, expected_shapes, heads_among

_STEP = "global_step"
# All other formats are described by their differences from this one.
_TABLE = NameTable()
# Optimizer slots and variables: of the original, TensorFlow's Adam and Momentum, LAMB, and the loss scaling of NVIDIA's
# programs.
_SLOTS = re.compile(
    r".+/(adam_[mv]|(Adam|AdamWeightDecayOptimizer|LAMBOptimizer|LAMB)(_1)?|lamb_[mv]|Momentum)"
    rf"|{_STEP}|beta[12]_power|(current_)?loss_scale|good_steps|bad_steps"
)
# Names of tensors that occur only in other architectures.
_OTHERS = {
    r".*encoder/transformer/group_\d+/.*|bert/encoder/embedding_hidden_mapping_in/.*": "ALBERT",
    r"(electra|generator|discriminator_predictions|generator_predictions)/.*": "ELECTRA",
    r"bert/encoder/layer_\d+/(bottleneck|ffn_layer_\d+)/.*": "MobileBERT",
    r"(tf)?roberta/.*|.*/roberta/.*": "RoBERTa",
    r".*relative_positions.*": "NEZHA",
    r"model/transformer/.*": "XLNet",
    r".*distilbert/.*": "DistilBERT",
}


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a TensorFlow checkpoint that stores its tensors by name."""
    prefix = find_prefix(path)
    return prefix is not None and is_object_based(prefix) is not True


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a checkpoint of the original, named by its prefix, one of its files, or its directory."""
    prefix = needed_prefix(path)
    files = TensorFiles(prefix)
    if is_object_based(prefix):
        raise ConversionError(f"{prefix}: stores its tensors by object, which is the format `model_garden`.")
    for pattern, architecture in _OTHERS.items():
        match = next((name for name in files.shapes if re.fullmatch(pattern, name)), None)
        if match:
            raise ConversionError(
                f"{prefix}: must hold tensors of BERT. Received: those of {architecture}, such as `{match}`"
            )
    config, beside = read_config(prefix.parent / CONFIG_NAME)
    left_out = tuple(name for name in files.shapes if _SLOTS.fullmatch(name))
    stored = {name: tensor for name, tensor in files.tensors().items() if name not in left_out}
    heads = heads_among(stored, lambda name: stored[name].shape)
    config = replace(config, pooler=any(name.startswith("bert/pooler/") for name in stored))
    return Checkpoint(
        form="google_tf1",
        path=prefix,
        config=config,
        heads=heads,
        tensors=_TABLE.read(stored, config, heads, prefix),
        dtype=most_common_dtype(stored.values()),
        step=int(files.array(_STEP)) if _STEP in files else None,
        left_out=left_out,
        **release_fields(prefix.parent, config, beside, options),
    )


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes a checkpoint in the layout of the releases; no head is lost."""
    write_release(checkpoint, directory, options)
    write_tensors(directory / RELEASED_NAME, _arrays(checkpoint))
    return []


def _arrays(checkpoint: Checkpoint) -> Iterator[tuple[str, np.ndarray]]:
    for name in expected_shapes(checkpoint.config, checkpoint.heads):
        yield name, _TABLE.array(name, checkpoint)
    if checkpoint.step is not None:
        yield _STEP, np.array(checkpoint.step, np.int64)
