"""Reads and writes the weight files of keras-hub presets.

Keras names a layer by its class in snake case, numbered if there are several, and its variables by their order.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import h5py
import ml_dtypes
import numpy as np

from bert_tf.config import save_json
from bert_tf.conversion.checkpoint import Checkpoint, conversion_errors
from bert_tf.conversion.formats.name_table import NameTable, StoredTensor, by_name, read_weight_map, split_shards
from bert_tf.conversion.tensors import MLM_BIAS, WORD_EMBEDDINGS, ConversionError, Heads, expected_shapes
from bert_tf.models.weights import read_array, stored_arrays

WEIGHTS_NAME, INDEX_NAME, TASK_WEIGHTS_NAME = "model.weights.h5", "model.weights.json", "task.weights.h5"
_OPTIMIZER = "optimizer/"
# Begins the names in the file of the task, since both files have `layers/dense`.
_TASK = f"{TASK_WEIGHTS_NAME}:"
_BLOCK = "layers/transformer_encoder{_i}"


def _comparable(key: str) -> str:
    # Keras 2 used other names for the layers, and private parts differ between versions.
    parts = key.replace("_layer_checkpoint_dependencies", "layers").split("/")
    return "/".join(part.removeprefix("_") for part in parts)


TABLE = NameTable(
    rows={
        WORD_EMBEDDINGS: "layers/reversible_embedding/vars/0",
        "bert/embeddings/token_type_embeddings": "layers/embedding/vars/0",
        "bert/embeddings/position_embeddings": "layers/position_embedding/vars/0",
        "bert/embeddings/LayerNorm": "layers/layer_normalization",
        "bert/encoder/layer_{i}/attention/self/query": f"{_BLOCK}/_self_attention_layer/query_dense",
        "bert/encoder/layer_{i}/attention/self/key": f"{_BLOCK}/_self_attention_layer/key_dense",
        "bert/encoder/layer_{i}/attention/self/value": f"{_BLOCK}/_self_attention_layer/value_dense",
        "bert/encoder/layer_{i}/attention/output/dense": f"{_BLOCK}/_self_attention_layer/output_dense",
        "bert/encoder/layer_{i}/attention/output/LayerNorm": f"{_BLOCK}/_self_attention_layer_norm",
        "bert/encoder/layer_{i}/intermediate/dense": f"{_BLOCK}/_feedforward_intermediate_dense",
        "bert/encoder/layer_{i}/output/dense": f"{_BLOCK}/_feedforward_output_dense",
        "bert/encoder/layer_{i}/output/LayerNorm": f"{_BLOCK}/_feedforward_layer_norm",
        "bert/pooler/dense": "layers/dense",
        "cls/predictions/transform/dense": f"{_TASK}layers/masked_lm_head/_intermediate_dense",
        "cls/predictions/transform/LayerNorm": f"{_TASK}layers/masked_lm_head/_intermediate_layer_norm",
        MLM_BIAS: f"{_TASK}layers/masked_lm_head/vars/0",
        "": f"{_TASK}layers/dense",
    },
    kinds=dict.fromkeys(("kernel", "gamma", "output_weights"), "/vars/0")
    | dict.fromkeys(("bias", "beta", "output_bias"), "/vars/1"),
    transposed=("output_weights",),
    by_head=True,
    comparable=_comparable,
)


def read_weights(directory: Path, *, task: bool) -> dict[str, StoredTensor]:
    """Returns the weights of a preset by the names of `TABLE`. Raises ConversionError for a damaged or missing file."""
    files = [directory / WEIGHTS_NAME]
    if not files[0].is_file():
        listed = read_weight_map(directory / INDEX_NAME).values()
        files = [directory / name for name in sorted({name for names in listed for name in names})]
    weights = [tensor for file in files for tensor in stored_tensors(file)]
    if task:
        weights += stored_tensors(directory / TASK_WEIGHTS_NAME)
    return by_name(
        [tensor for tensor in weights if not tensor.name.startswith(_OPTIMIZER)],
        lambda tensor: (_TASK if tensor.file.name == TASK_WEIGHTS_NAME else "") + _comparable(tensor.name),
    )


def optimizer_state(path: Path) -> tuple[list[str], int | None]:
    """Returns the names of the optimizer's variables in a file, and its number of steps."""
    names, step = [], None
    for tensor in stored_tensors(path):
        if tensor.name.startswith(_OPTIMIZER):
            names.append(tensor.name)
            if tensor.name == f"{_OPTIMIZER}vars/0" and tensor.shape == () and tensor.dtype in ("int32", "int64"):
                step = int(tensor.read()) or None
    return names, step


def write_weights(checkpoint: Checkpoint, heads: Heads, directory: Path, dtype: str, shard_bytes: int) -> None:
    """Writes the weights of encoder and heads, one array in memory at a time; `shard_bytes` is that of `Options`."""
    numbers = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    groups: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, shape in expected_shapes(checkpoint.config, heads).items():
        group = TABLE.name(name).rpartition("/")[0]
        groups.setdefault(group, []).append(name)
        sizes[group] = sizes.get(group, 0) + numbers.itemsize * int(np.prod(shape))
    task = {group: sizes.pop(group) for group in groups if group.startswith(_TASK)}
    shards = split_shards(sizes, shard_bytes)
    names = [WEIGHTS_NAME] if len(shards) == 1 else [f"model_{number:05}.weights.h5" for number in range(len(shards))]
    files = dict(zip(names, shards, strict=True)) | ({TASK_WEIGHTS_NAME: list(task)} if task else {})
    for file_name, held in files.items():
        with h5py.File(directory / file_name, "w") as file:
            for name in (name for group in held for name in groups[group]):
                array = TABLE.array(name, checkpoint).astype(numbers)
                dataset = file.create_dataset(TABLE.name(name).removeprefix(_TASK), data=array)
                if dtype == "bfloat16":
                    dataset.attrs["dtype"] = dtype
    if len(shards) > 1:
        weight_map = {f"/{group}": name for name in names for group in files[name]}
        save_json({"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}, directory / INDEX_NAME)


@conversion_errors()
def stored_tensors(path: Path) -> list[StoredTensor]:
    """Returns all tensors in a file. Raises ConversionError if it is damaged or links to other files."""
    return [
        StoredTensor(name, path, array.dtype, array.shape, partial(_array, path, name, array.dtype))
        for name, array in stored_arrays(path).items()
    ]


@conversion_errors()
def _array(path: Path, name: str, dtype: str) -> np.ndarray:
    array = read_array(path, name)
    if dtype != "bfloat16":
        return array
    # HDF5 has no bfloat16; it stores the values as two opaque bytes.
    if array.dtype.itemsize != 2:
        raise ConversionError(
            f"{path}: weight `{name}` must have 2 bytes per number for bfloat16. Received: {array.dtype.itemsize}"
        )
    return array.view(ml_dtypes.bfloat16)
