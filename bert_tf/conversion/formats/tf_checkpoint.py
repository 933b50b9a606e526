"""Reads and writes the files of TensorFlow checkpoints, which the original and the Model Garden use.

A checkpoint is named by a prefix such as `bert_model.ckpt`. It consists of an index and one or more data files; in the
older format it is a single file of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_tf.conversion.formats.name_table import StoredTensor
from bert_tf.conversion.tensors import ConversionError

RELEASED_NAME = "bert_model.ckpt"
# Key that only object-based checkpoints have.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_DATA = re.compile(r"\.data-(\d{5})-of-(\d{5})")
# The last bytes of a LevelDB table: the format of the index and of single-file checkpoints.
_TABLE_END = bytes.fromhex("57fb808b247547db")
# Exceptions of the reader for a damaged file; a truncated file raises LookupError.
_FAILURES = (tf.errors.OpError, ValueError, RuntimeError, LookupError)
# TensorFlow's other name of a dtype.
_HALF = {"half": "float16"}


class TensorFiles:
    """Names, shapes and arrays of a checkpoint. Raises ConversionError if a file is missing or damaged."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        _check_data_files(prefix)
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
            self.shapes = {
                name: tuple(int(size) for size in shape)
                for name, shape in sorted(self._reader.get_variable_to_shape_map().items())
            }
            types = self._reader.get_variable_to_dtype_map()
        except _FAILURES as error:
            raise ConversionError(f"{prefix}: not a readable TensorFlow checkpoint: {_reason(error)}") from error
        self.types = {name: types[name].name for name in self.shapes}

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def array(self, name: str) -> np.ndarray:
        """Returns a tensor as stored. Raises ConversionError if its bytes are damaged or missing."""
        try:
            array: np.ndarray = self._reader.get_tensor(name)
        except _FAILURES as error:
            raise ConversionError(f"{self.prefix}: tensor `{name}` is damaged: {_reason(error)}") from error
        return array

    def tensors(self) -> dict[str, StoredTensor]:
        """Returns all tensors by name; their arrays are read on demand."""
        return {
            name: StoredTensor(
                name, self.prefix, _HALF.get(self.types[name], self.types[name]), shape, partial(self.array, name)
            )
            for name, shape in self.shapes.items()
        }


def find_prefix(path: Path) -> Path | None:
    """Returns the prefix of the checkpoint at a path: a prefix, one of its files, or a directory; None if absent.

    A directory is searched for the newest checkpoint in the file `checkpoint`, then `bert_model.ckpt`, then a single
    index.
    """
    if path.is_dir():
        indices = [index.with_suffix("") for index in sorted(path.glob("*.index"))]
        candidates = (_newest(path), path / RELEASED_NAME, *(indices if len(indices) == 1 else ()))
        return next((prefix for prefix in candidates if prefix is not None and _is_checkpoint(prefix)), None)
    named = path.with_name(_DATA.sub("", path.name.removesuffix(".index")))
    # The index is a LevelDB table too, so its own name comes last.
    return next((prefix for prefix in (named, path) if _is_checkpoint(prefix)), None)


def needed_prefix(path: Path) -> Path:
    """Returns the result of `find_prefix`. Raises ConversionError if there is no checkpoint or more than one."""
    prefix = find_prefix(path)
    if prefix is not None:
        return prefix
    names = [file.name for file in sorted(path.glob("*.index"))] if path.is_dir() else []
    received = f"several, {', '.join(names)}: name one of them" if len(names) > 1 else "none"
    raise ConversionError(
        f"{path}: must be a TensorFlow checkpoint: a directory with {RELEASED_NAME}.index and its data files, a "
        f"directory whose file `checkpoint` names one, or the prefix of one. Received: {received}"
    )


def is_object_based(prefix: Path) -> bool | None:
    """Returns True if a checkpoint stores its tensors by object rather than by name; None if it cannot be read."""
    try:
        return bool(tf.train.load_checkpoint(str(prefix)).has_tensor(OBJECT_GRAPH))
    except _FAILURES:
        return None


def write_tensors(prefix: Path, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a name-based checkpoint with a single data file; all arrays stay in memory until they are written."""
    names, tensors = [], []
    with tf.device("CPU:0"):
        for name, array in arrays:
            names.append(name)
            tensors.append(tf.constant(array))
        tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)


def _newest(directory: Path) -> Path | None:
    if not (directory / "checkpoint").is_file():
        return None
    try:
        state = tf.train.get_checkpoint_state(str(directory))
    except _FAILURES:
        return None
    # A directory that was moved still names its former path.
    return directory / Path(state.model_checkpoint_path).name if state and state.model_checkpoint_path else None


def _is_checkpoint(prefix: Path) -> bool:
    if prefix.with_name(f"{prefix.name}.index").is_file():
        return True
    if not prefix.is_file() or prefix.stat().st_size < len(_TABLE_END):
        return False
    with prefix.open("rb") as stream:
        stream.seek(-len(_TABLE_END), 2)
        return stream.read() == _TABLE_END


def _check_data_files(prefix: Path) -> None:
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        return
    files = [file for file in prefix.parent.iterdir() if file.name.startswith(f"{prefix.name}.data-")]
    shards = {match.groups() for file in files if (match := _DATA.search(file.name))}
    number = next(iter(shards))[1] if shards else "00001"
    missing = {f"{shard:05d}" for shard in range(int(number))} - {shard for shard, _ in shards}
    if missing:
        names = ", ".join(f"{prefix.name}.data-{shard}-of-{number}" for shard in sorted(missing))
        raise ConversionError(f"{prefix}: all data files of the index must exist. Missing: {names}")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
