"""Summarizes a checkpoint of any format without reading its arrays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import to_dict
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.formats.preset import weight_path
from bert_tf.conversion.formats.vocabulary import without_padding
from bert_tf.conversion.tensors import expected_shapes


def describe_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns a summary of `checkpoint` that can be stored as JSON.

    Args:
        checkpoint: checkpoint of any format.

    Returns:
        The summary; `kind` names the format, `bytes` is the size of all files, and parameter blocks have the names of a
        preset.
    """
    blocks: Counter[str] = Counter()
    for name, shape in expected_shapes(checkpoint.config, checkpoint.heads).items():
        blocks[weight_path(name).partition("/")[0]] += int(np.prod(shape))
    vocabulary = checkpoint.vocabulary
    return {
        "kind": f"checkpoint of the form {checkpoint.form}",
        "bytes": sum(path.stat().st_size for path in _files(checkpoint.path)),
        "dtype": checkpoint.dtype,
        "parameters": sum(blocks.values()),
        "parameters_by_block": dict(blocks),
        "model": to_dict(checkpoint.config),
        "vocabulary_size": None if vocabulary is None else len(without_padding(vocabulary)),
        "lowercase": checkpoint.lowercase,
        "heads": checkpoint.heads.names(),
        "labels": None if checkpoint.labels is None else list(checkpoint.labels),
        "step": checkpoint.step,
        "left_out": list(checkpoint.left_out),
        "info": dict(checkpoint.info),
    }


def _files(path: Path) -> list[Path]:
    """Returns the files under a directory except hidden ones, or the files whose names begin with that of `path`."""
    if path.is_dir():
        files = (file for file in path.rglob("*") if not any(p.startswith(".") for p in file.relative_to(path).parts))
        return [file for file in files if file.is_file()]
    if path.is_file():
        return [path]
    return [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}.") and file.is_file()]
