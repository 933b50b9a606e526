"""Files of a version's folder: whether they have changed, and whether any are still missing."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import tensorflow as tf

from bert_tf.export.metadata import SAVED_MODEL_NAME, read_meta_graph

# Relative name, bytes and time of the last change (ns) of each file.
Signature = frozenset[tuple[str, int, int]]

_SHARD = re.compile(r"variables\.data-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")


class IncompleteVersionError(ValueError):
    """A version whose files are not all there yet, as while it is being copied."""


def folder_signature(folder: Path) -> Signature:
    """Returns the names, sizes and times of all files of a folder; equal if and only if none has changed.

    Files that vanish meanwhile are left out, as are folders that cannot be read. Links to folders are not followed.

    Args:
        folder: of a version.
    """
    found = set()
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            try:
                status = path.stat()
            except OSError:
                continue
            found.add((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns))
    return frozenset(found)


def check_complete(folder: Path) -> None:
    """Refuses a version of which files are missing, or shorter than the rest says.

    It reads the graph and the index of the variables, not the variables. Files that it cannot read are left to the
    loader, which reports what is wrong with them.

    Args:
        folder: of a version.

    Raises:
        IncompleteVersionError: if saved_model.pb, an asset, or a part of the variables is missing.
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
    # Both say that variables are restored: the first in TensorFlow 2, the second in TensorFlow 1.
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
        if found := _SHARD.fullmatch(path.name):
            sizes.setdefault(int(found["count"]), {})[int(found["number"])] = path.stat().st_size
    whole = [sum(shards.values()) for count, shards in sizes.items() if len(shards) == count]
    if not whole:
        raise IncompleteVersionError(f"{folder}: incomplete: a file variables/variables.data-* is missing")
    dtypes = checkpoint.get_variable_to_dtype_map()
    # The size of strings is not in the index; each tensor of numbers takes exactly its own.
    needed = sum(
        math.prod(shape) * dtypes[name].size
        for name, shape in checkpoint.get_variable_to_shape_map().items()
        if dtypes[name].is_floating or dtypes[name].is_integer or dtypes[name].is_bool
    )
    if max(whole) < needed:
        raise IncompleteVersionError(f"{folder}: incomplete: variables/variables.data-* is shorter than its index says")
