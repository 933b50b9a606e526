"""Reads and writes TensorFlow 2 checkpoints of the Model Garden (tf-models-official).

Reads checkpoints of its `BertEncoder` and `BertEncoderV2`, alone or in one of its models. Objects are recognized by
their contents, whatever their name.

Writes a `bert_model.ckpt` that `tf.train.Checkpoint(encoder=...)` reads into either encoder, and
`tf.train.Checkpoint(model=...)` into the encoder, into `BertPretrainerV2` if there are heads of pre-training, or into
`BertClassifier`, `BertTokenClassifier` or `BertSpanLabeler` if there is the head of a task.
`assert_existing_objects_matched()` holds for all of them. `bert_config.json` and `vocab.txt` are written beside it.
"""

from __future__ import annotations

import re
from pathlib import Path

import tensorflow as tf

from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.formats.model_garden.objects import TABLE, build_objects, find_tensors, read_graph
from bert_tf.conversion.formats.name_table import most_common_dtype
from bert_tf.conversion.formats.releases import CONFIG_NAME, read_config, release_fields, write_release
from bert_tf.conversion.formats.tf_checkpoint import (
    OBJECT_GRAPH,
    RELEASED_NAME,
    TensorFiles,
    find_prefix,
    is_object_based,
    needed_prefix,
)
from bert_tf.conversion.tensors import ConversionError, heads_among

# Variables of training, which are not part of a model.
_TRAINING = re.compile(
    r"(.*/)?(optimizer|metrics|train_loss|keras_api)/.*|.*\.OPTIMIZER_SLOT.*|(save_counter|global_step)/.*"
)
_STEPS = tuple(f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("global_step", "optimizer/iter"))
_SHOWN = 8


def recognizes(path: Path) -> bool:
    """Returns True if `path` is a TensorFlow checkpoint that stores its tensors by object."""
    prefix = find_prefix(path)
    return prefix is not None and is_object_based(prefix) is True


def read(path: Path, options: Options) -> Checkpoint:
    """Reads a checkpoint of the Model Garden, named by its prefix, one of its files, or its directory.

    A head with a pooler of its own, such as `ClassificationHead`, was trained with that pooler. It replaces the
    encoder's pooler, which is left out.
    """
    prefix = needed_prefix(path)
    files = TensorFiles(prefix)
    if OBJECT_GRAPH not in files:
        raise ConversionError(f"{prefix}: stores its tensors by name, which is the format `google_tf1`.")
    locations = find_tensors(read_graph(files))
    if locations is None:
        raise ConversionError(
            f"{prefix}: must hold a BertEncoder of the Model Garden. Received: {_listed(list(files.shapes))}"
        )
    config, beside = read_config(prefix.parent / CONFIG_NAME)
    rest = [key for key in files.shapes if key not in {*locations.keys.values(), OBJECT_GRAPH}]
    left_out = tuple(key for key in rest if _TRAINING.fullmatch(key) or key in locations.replaced)
    unknown = [key for key in rest if key not in left_out]
    if unknown:
        raise ConversionError(f"{prefix}: must hold only tensors of a known model. Received: {_listed(unknown)}")
    tensors = files.tensors()
    stored = {TABLE.name(name): tensors[key] for name, key in locations.keys.items()}
    heads = heads_among(locations.keys, lambda name: stored[TABLE.name(name)].shape[::-1])
    return Checkpoint(
        form="model_garden",
        path=prefix,
        config=config,
        heads=heads,
        tensors=TABLE.read(stored, config, heads, prefix),
        dtype=most_common_dtype(stored.values()),
        step=next((int(files.array(key)) for key in _STEPS if key in files), None),
        left_out=left_out,
        **release_fields(prefix.parent, config, beside, options),
    )


def write(checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
    """Writes a checkpoint in the layout of the releases and returns the heads that no model of the Model Garden has.

    These are multiple choice, and next sentence prediction without a masked language model or with a task.
    """
    write_release(checkpoint, directory, options)
    with tf.device("CPU:0"):
        objects, lost = build_objects(checkpoint)
        tf.train.Checkpoint(**objects).write(str(directory / RELEASED_NAME))
    return lost


def _listed(keys: list[str]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
