"""Reads and writes the weight files of keras-hub presets.

Keras names a layer by its class in snake case, numbered if there are several, and its variables by their order.
Attention projects from H to N heads of width D and back, so kernels are (H, N, D) and (N, D, H) in these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np

from bert_tf.config import BertConfig, ConfigError, save_json
from bert_tf.config.base import read_json_object
from bert_tf.conversion.checkpoint import DTYPES, Checkpoint
from bert_tf.conversion.tensors import (
    MLM_BIAS,
    TASK_PREFIXES,
    WORD_EMBEDDINGS,
    ConversionError,
    Heads,
    Tensor,
    expected_shapes,
)
from bert_tf.models.weights import StoredArray, read_array, stored_arrays

WEIGHTS_NAME, INDEX_NAME, TASK_WEIGHTS_NAME = "model.weights.h5", "model.weights.json", "task.weights.h5"
OPTIMIZER = "optimizer/"
# The only task head of keras-hub's BERT, by the original's name.
_CLASSIFIER = TASK_PREFIXES["sequence_classification"]
_BACKBONE = {
    WORD_EMBEDDINGS: "layers/reversible_embedding",
    "bert/embeddings/token_type_embeddings": "layers/embedding",
    "bert/embeddings/position_embeddings": "layers/position_embedding",
    "bert/embeddings/LayerNorm": "layers/layer_normalization",
    "bert/pooler/dense": "layers/dense",
}
_LAYER = {
    "attention/self/query": "_self_attention_layer/query_dense",
    "attention/self/key": "_self_attention_layer/key_dense",
    "attention/self/value": "_self_attention_layer/value_dense",
    "attention/output/dense": "_self_attention_layer/output_dense",
    "attention/output/LayerNorm": "_self_attention_layer_norm",
    "intermediate/dense": "_feedforward_intermediate_dense",
    "output/dense": "_feedforward_output_dense",
    "output/LayerNorm": "_feedforward_layer_norm",
}
_TASK = {
    "cls/predictions/transform/dense": "layers/masked_lm_head/_intermediate_dense",
    "cls/predictions/transform/LayerNorm": "layers/masked_lm_head/_intermediate_layer_norm",
    MLM_BIAS: "layers/masked_lm_head",
    f"{_CLASSIFIER}output_weights": "layers/dense",
    f"{_CLASSIFIER}output_bias": "layers/dense",
}
_SECOND = ("bias", "beta", f"{_CLASSIFIER}output_bias")


@dataclass(frozen=True)
class _Stored:
    file: Path
    key: str
    shape: tuple[int, ...]
    dtype: str


def is_of_task(name: str) -> bool:
    """Returns True if keras-hub stores the tensor of this name in the file of the task."""
    return not name.startswith("bert/")


def group_of(name: str) -> tuple[str, str]:
    """Returns the group of a tensor of the original's name, and its key in the group."""
    owner, _, kind = name.rpartition("/")
    key = "1" if kind in _SECOND and name != MLM_BIAS else "0"
    groups = _TASK if is_of_task(name) else _BACKBONE
    if name in groups or owner in groups:
        return f"{groups.get(name) or groups[owner]}/vars", key
    layer, _, part = owner.removeprefix("bert/encoder/layer_").partition("/")
    number = f"_{layer}" if int(layer) else ""
    return f"layers/transformer_encoder{number}/{_LAYER[part]}/vars", key


def stored_shape(name: str, shape: tuple[int, ...], heads: int) -> tuple[int, ...]:
    """Returns the shape in keras-hub's files of a tensor whose shape in the original's layout is `shape`."""
    if "/attention/self/" in name:
        return (*shape[:-1], heads, shape[-1] // heads)
    if name.endswith("/attention/output/dense/kernel"):
        return (heads, shape[0] // heads, shape[1])
    return shape[::-1] if name.endswith("output_weights") else shape


def backbone_files(directory: Path) -> list[Path]:
    """Returns the files of the encoder's weights: one file, or all files of an index.

    Args:
        directory: directory of the preset.

    Raises:
        ConversionError: if the index is unreadable, or names files that are missing or in another directory.
    """
    if (directory / WEIGHTS_NAME).is_file():
        return [directory / WEIGHTS_NAME]
    index = directory / INDEX_NAME
    try:
        mapping = read_json_object(index).get("weight_map")
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    if not isinstance(mapping, dict) or not mapping:
        raise ConversionError(f"{index}: `weight_map` must name the file of every weight. Received: {mapping!r}")
    names = {name for names in mapping.values() for name in (names if isinstance(names, list) else [names])}
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not (directory / name).is_file():
            raise ConversionError(f"{index}: `weight_map` must name files beside it. Received: {name!r}")
    return [directory / name for name in sorted(names)]


def read_tensors(
    files: Iterable[Path], config: BertConfig, heads: Heads, *, of_task: bool
) -> tuple[dict[str, Tensor], str]:
    """Returns tensors by the original's names, and the dtype of most of them; arrays are read on demand.

    Args:
        files: all files of the encoder, or the file of the task.
        config: architecture of the encoder.
        heads: heads of the task.
        of_task: whether the files are those of the task.

    Raises:
        ConversionError: for an unreadable file, or a weight that is duplicated, external or quantized.
    """
    shapes = expected_shapes(config, heads)
    names = {_normalized("/".join(group_of(name))): name for name in shapes if is_of_task(name) == of_task}
    tensors, dtypes = {}, []
    for stored in _stored(files):
        name = names.get(_normalized(stored.key))
        if stored.dtype not in DTYPES:
            raise ConversionError(
                f"{stored.file}: `{stored.key}` must have dtype {', '.join(DTYPES)}; quantized weights cannot be read. "
                f"Received: {stored.dtype}"
            )
        shape = stored.shape
        if name and shape == stored_shape(name, shapes[name], config.num_heads):
            shape = shapes[name]
        if (name or stored.key) in tensors:
            raise ConversionError(f"{stored.file}: `{stored.key}` must occur once. Received: it is in two files")
        tensors[name or stored.key] = Tensor(stored.key, shape, _reader(stored, name or "", shape))
        dtypes.append(stored.dtype)
    return tensors, max(dtypes, key=dtypes.count, default=DTYPES[0])


def optimizer_state(path: Path) -> tuple[list[str], int | None]:
    """Returns the names of the optimizer's variables in a file, and its number of steps."""
    names, step = [], None
    for stored in _stored([path], optimizer=True):
        names.append(stored.key)
        if stored.key == f"{OPTIMIZER}vars/0" and stored.shape == () and stored.dtype in ("int32", "int64"):
            step = int(_array(stored)) or None
    return names, step


def write_backbone(checkpoint: Checkpoint, directory: Path, dtype: str, shard_bytes: int) -> None:
    """Writes the encoder's weights, one array in memory at a time.

    Args:
        checkpoint: checkpoint with a pooler.
        directory: directory to write to.
        dtype: dtype to write, one of `checkpoint.DTYPES`.
        shard_bytes: maximum size of a file in bytes, unless a single weight is larger.
    """
    groups = _groups(checkpoint.config, Heads(), of_task=False)
    width = np.dtype(_numpy(dtype)).itemsize
    sizes = {
        group: width * sum(int(np.prod(checkpoint.tensors[name].shape)) for name in names)
        for group, names in groups.items()
    }
    if sum(sizes.values()) <= shard_bytes:
        _write(directory / WEIGHTS_NAME, checkpoint, groups, dtype)
        return
    shards: list[dict[str, list[str]]] = [{}]
    for group, names in groups.items():
        if shards[-1] and sizes[group] + sum(sizes[other] for other in shards[-1]) > shard_bytes:
            shards.append({})
        shards[-1][group] = names
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards):
        name = f"model_{number:05}.weights.h5"
        _write(directory / name, checkpoint, shard, dtype)
        weight_map |= {f"/{group}": name for group in shard}
    save_json({"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}, directory / INDEX_NAME)


def write_task(checkpoint: Checkpoint, heads: Heads, directory: Path, dtype: str) -> None:
    """Writes the weights of `heads`, which are some of the checkpoint's heads."""
    _write(directory / TASK_WEIGHTS_NAME, checkpoint, _groups(checkpoint.config, heads, of_task=True), dtype)


def _groups(config: BertConfig, heads: Heads, *, of_task: bool) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in expected_shapes(config, heads):
        if is_of_task(name) == of_task:
            groups.setdefault(group_of(name)[0], []).append(name)
    return groups


def _write(path: Path, checkpoint: Checkpoint, groups: Mapping[str, list[str]], dtype: str) -> None:
    with h5py.File(path, "w") as file:
        for group, names in groups.items():
            for name in names:
                array = checkpoint.array(name)
                shape = stored_shape(name, array.shape, checkpoint.config.num_heads)
                array = (array.T if name.endswith("output_weights") else array).reshape(shape)
                dataset = file.create_dataset(f"{group}/{group_of(name)[1]}", data=array.astype(_numpy(dtype)))
                if dtype == "bfloat16":
                    dataset.attrs["dtype"] = dtype


def _normalized(key: str) -> str:
    # Keras 2 used other names for the layers, and private parts differ between versions.
    parts = key.replace("_layer_checkpoint_dependencies", "layers").split("/")
    return "/".join(part.removeprefix("_") for part in parts)


def check_stored(files: Iterable[Path]) -> None:
    """Raises ConversionError if a file of weights links to another file, which keras-hub would read."""
    for path in files:
        _arrays(path)


def _arrays(path: Path) -> dict[str, StoredArray]:
    try:
        return stored_arrays(path)
    except ConfigError as error:
        raise ConversionError(str(error)) from error


def _stored(files: Iterable[Path], *, optimizer: bool = False) -> Iterator[_Stored]:
    for path in files:
        for key, array in _arrays(path).items():
            if key.startswith(OPTIMIZER) == optimizer:
                yield _Stored(path, key, array.shape, array.dtype)


def _reader(stored: _Stored, name: str, shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        array = _array(stored)
        return (array.T if name.endswith("output_weights") else array).reshape(shape)

    return read


def _array(stored: _Stored) -> np.ndarray:
    try:
        array = read_array(stored.file, stored.key)
    except ConfigError as error:
        raise ConversionError(str(error)) from error
    if stored.dtype != "bfloat16":
        return array
    # HDF5 has no bfloat16; it stores the values as two opaque bytes.
    if array.dtype.itemsize != 2:
        raise ConversionError(
            f"{stored.file}: weight `{stored.key}` must have 2 bytes per number for bfloat16. "
            f"Received: {array.dtype.itemsize}"
        )
    return array.view(ml_dtypes.bfloat16)


def _numpy(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
