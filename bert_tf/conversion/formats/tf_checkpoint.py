"""The files of TensorFlow's checkpoints, of which both the original's and the Model Garden's are made.

Such a checkpoint is named by a prefix, `bert_model.ckpt`, and is an index and one or more files of data beside it; in
the older format it is one file of that very name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_tf.conversion.tensors import ConversionError, Tensor

RELEASED_NAME = "bert_model.ckpt"
# What every object-based checkpoint has, and no other.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_DATA = re.compile(r"\.data-(\d{5})-of-(\d{5})")
# The last bytes of a table of LevelDB, which the index is, and so is a checkpoint of one file.
_TABLE_END = bytes.fromhex("57fb808b247547db")
# What its reader raises for a damaged file: a short one is out of an index.
_FAILURES = (tf.errors.OpError, ValueError, RuntimeError, LookupError)
# TensorFlow's number formats that a model may be kept in.
_FLOATS = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16", "half": "float16"}


class TensorFiles:
    """Names, shapes and arrays of a checkpoint.

    Args:
        prefix: the checkpoint's name, as `find_prefix` returns it.

    Raises:
        ConversionError: where a file is missing or damaged.
    """

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
            raise ConversionError(f"{prefix}: not a readable checkpoint of TensorFlow: {_reason(error)}") from error
        self.types = {name: types[name].name for name in self.shapes}

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def array(self, name: str) -> np.ndarray:
        """Returns a tensor as it is kept. Raises ConversionError where its bytes are damaged or missing."""
        try:
            array: np.ndarray = self._reader.get_tensor(name)
        except _FAILURES as error:
            raise ConversionError(f"{self.prefix}: tensor `{name}` is damaged: {_reason(error)}") from error
        return array

    def tensor(self, name: str, shape: tuple[int, ...] | None = None, *, transposed: bool = False) -> Tensor:
        """Returns a tensor in the original's layout, its array still on disk.

        Args:
            name: in this checkpoint.
            shape: in the original's layout; None for the one it is kept in.
            transposed: whether its axes are in the reverse order here.

        Raises:
            ConversionError: where it does not hold floating-point numbers of at most 32 bits.
        """
        if self.types[name] not in _FLOATS:
            raise ConversionError(
                f"{self.prefix}: `{name}` must hold one of {', '.join(sorted(set(_FLOATS.values())))}. "
                f"Received: {self.types[name]}"
            )
        kept = self.shapes[name][::-1] if transposed else self.shapes[name]
        if shape is None or np.prod(shape) != np.prod(kept):
            shape = kept
        return Tensor(name, shape, partial(self._shaped, name, shape, transposed))

    def _shaped(self, name: str, shape: tuple[int, ...], transposed: bool) -> np.ndarray:
        array = self.array(name)
        return (array.T if transposed else array).reshape(shape)

    def dtype(self, names: Iterable[str]) -> str:
        """Returns the number format that most elements of the named tensors are kept in."""
        sizes: dict[str, int] = {}
        for name in names:
            kind = _FLOATS[self.types[name]]
            sizes[kind] = sizes.get(kind, 0) + int(np.prod(self.shapes[name]))
        return max(sizes, key=lambda kind: sizes[kind])


def find_prefix(path: Path) -> Path | None:
    """Returns the prefix of the checkpoint at a path, None where there is none.

    Args:
        path: a prefix, one of its files, or a directory: of the checkpoint that the file `checkpoint` names as the
            newest, or else of `bert_model.ckpt`, or else of the only one.
    """
    if path.is_dir():
        indices = [index.with_suffix("") for index in sorted(path.glob("*.index"))]
        candidates = (_newest(path), path / RELEASED_NAME, *(indices if len(indices) == 1 else ()))
        return next((prefix for prefix in candidates if prefix is not None and _is_checkpoint(prefix)), None)
    named = path.with_name(_DATA.sub("", path.name.removesuffix(".index")))
    # The index is a table itself, so that its own name comes last.
    return next((prefix for prefix in (named, path) if _is_checkpoint(prefix)), None)


def needed_prefix(path: Path) -> Path:
    """Returns what `find_prefix` does. Raises ConversionError where there is no checkpoint, or more than one."""
    prefix = find_prefix(path)
    if prefix is not None:
        return prefix
    found = [file.name for file in sorted(path.glob("*.index"))] if path.is_dir() else []
    received = f"several, {', '.join(found)}: name one of them" if len(found) > 1 else "none"
    raise ConversionError(
        f"{path}: must be a checkpoint of TensorFlow: {RELEASED_NAME}.index and its files of data, one that the file "
        f"`checkpoint` names, or a path that ends in the name of one. Received: {received}"
    )


def is_object_based(prefix: Path) -> bool | None:
    """Returns whether a checkpoint keeps its tensors by object rather than by name; None where it cannot be read."""
    try:
        return bool(tf.train.load_checkpoint(str(prefix)).has_tensor(OBJECT_GRAPH))
    except _FAILURES:
        return None


def write_tensors(prefix: Path, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a checkpoint of names, its arrays in one file of data.

    Args:
        prefix: the checkpoint's name.
        arrays: by name; each is held once until all are written.
    """
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
    # A directory that was moved names the place it was written to.
    return directory / Path(state.model_checkpoint_path).name if state and state.model_checkpoint_path else None


def _is_checkpoint(prefix: Path) -> bool:
    return prefix.with_name(f"{prefix.name}.index").is_file() or _is_table(prefix)


def _is_table(file: Path) -> bool:
    if not file.is_file() or file.stat().st_size < len(_TABLE_END):
        return False
    with file.open("rb") as stream:
        stream.seek(-len(_TABLE_END), 2)
        return stream.read() == _TABLE_END


def _check_data_files(prefix: Path) -> None:
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        return
    files = [file for file in prefix.parent.iterdir() if file.name.startswith(f"{prefix.name}.data-")]
    found = {match.groups() for file in files if (match := _DATA.search(file.name))}
    number = next(iter(found))[1] if found else "00001"
    missing = {f"{shard:05d}" for shard in range(int(number))} - {shard for shard, _ in found}
    if missing:
        names = ", ".join(f"{prefix.name}.data-{shard}-of-{number}" for shard in sorted(missing))
        raise ConversionError(f"{prefix}: the index stands without all its files of data. Missing: {names}")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
