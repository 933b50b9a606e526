"""Detects changed and missing files in the folder of a version."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import tensorflow as tf

from bert_tf.export.metadata import SAVED_MODEL_NAME, read_meta_graph

# Relative path, size in bytes and modification time (ns) of each file.
Signature = frozenset[tuple[str, int, int]]

_SHARD = re.compile(r"variables\.data-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")


class IncompleteVersionError(ValueError):
    """Raised for a version with missing files, for example while it is being copied."""


def folder_signature(folder: Path) -> Signature:
    """Returns the names, sizes and times of all files of a folder; equal if and only if no file has changed.

    Files that disappear in the meantime and unreadable folders are skipped. Links to folders are not followed.
    """
    signature = set()
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            try:
                status = path.stat()
            except OSError:
                continue
            signature.add((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns))
    return frozenset(signature)


def check_complete(folder: Path) -> None:
    """Raises IncompleteVersionError if saved_model.pb, an asset or a part of the variables is missing or truncated.

    It reads the graph and the index of the variables, not the variables. Unreadable files are left to the loader, which
    reports the error.
    """
    if not (folder / SAVED_MODEL_NAME).is_file():
        raise IncompleteVersionError(f"{folder}: incomplete: {SAVED_MODEL_NAME} is missing")
    try:
        graph = read_meta_graph(folder)
    except ValueError:
        return
    for asset in graph.asset_file_def:
        if not (folder / "assets" / asset.filename).is_file():
            raise IncompleteVersionError(f"{folder}: incomplete: assets/{asset.filename} is missing")
    # Both fields mean that the version has variables: the first in TensorFlow 2, the second in TensorFlow 1.
    if graph.HasField("object_graph_def") or graph.HasField("saver_def"):
        _check_variables(folder)


def _check_variables(folder: Path) -> None:
    prefix = folder / "variables" / "variables"
    if not prefix.with_suffix(".index").is_file():
        raise IncompleteVersionError(f"{folder}: incomplete: variables/variables.index is missing")
    try:
        checkpoint = tf.train.load_checkpoint(str(prefix))
    except (RuntimeError, tf.errors.OpError):
        return
    sizes: dict[int, dict[int, int]] = {}
    for path in prefix.parent.iterdir():
        if match := _SHARD.fullmatch(path.name):
            sizes.setdefault(int(match["count"]), {})[int(match["number"])] = path.stat().st_size
    whole = [sum(shards.values()) for count, shards in sizes.items() if len(shards) == count]
    if not whole:
        raise IncompleteVersionError(f"{folder}: incomplete: a file variables/variables.data-* is missing")
    dtypes = checkpoint.get_variable_to_dtype_map()
    # The index does not have the size of string tensors; that of numeric tensors is exact.
    needed = sum(
        math.prod(shape) * dtypes[name].size
        for name, shape in checkpoint.get_variable_to_shape_map().items()
        if dtypes[name].is_floating or dtypes[name].is_integer or dtypes[name].is_bool
    )
    if max(whole) < needed:
        raise IncompleteVersionError(f"{folder}: incomplete: variables/variables.data-* is shorter than its index says")
