"""Reads and writes the weight files of Hugging Face's directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import safetensors

from bert_tf.config import save_json
from bert_tf.conversion.formats.huggingface.torch_file import read_torch_file
from bert_tf.conversion.formats.name_table import StoredTensor, read_weight_map, split_shards
from bert_tf.conversion.tensors import ConversionError

SAFETENSORS_NAME, TORCH_NAME = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
# In the order in which transformers looks for them.
NAMES = (SAFETENSORS_NAME, SAFETENSORS_NAME + _INDEX, TORCH_NAME, TORCH_NAME + _INDEX)
# Weights in formats that are not supported.
OTHER_NAMES = ("tf_model.h5", "flax_model.msgpack", "model.onnx", "adapter_model.safetensors", "adapter_model.bin")
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32"}
_POINTER = b"version https://git-lfs"


def read_weights(directory: Path) -> dict[str, StoredTensor]:
    """Returns the tensors of a directory. Raises ConversionError if files are missing, damaged or inconsistent."""
    name = next((name for name in NAMES if (directory / name).is_file()), None)
    if name is None:
        others = [name for name in OTHER_NAMES if (directory / name).is_file()]
        raise ConversionError(
            f"{directory}: must hold one of {', '.join(NAMES)}. Received: {', '.join(others) or 'no file of weights'}"
        )
    return _read_shards(directory / name) if name.endswith(_INDEX) else _read_file(directory / name)


def write_shards(sizes: Mapping[str, int], directory: Path, arrays: Callable[[str], np.ndarray], limit: int) -> None:
    """Writes `model.safetensors`, or shards and their index if one file would be larger than `limit` bytes.

    `sizes` has the bytes of each tensor in the order to write; `arrays` returns the C-contiguous array of a name. A
    tensor larger than `limit` gets its own file.
    """
    from safetensors.numpy import save_file

    shards = split_shards(sizes, limit)
    files: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        stem = Path(SAFETENSORS_NAME).stem
        file = SAFETENSORS_NAME if len(shards) == 1 else f"{stem}-{number:05d}-of-{len(shards):05d}.safetensors"
        path = directory / file
        path.touch()
        # The library creates files that only their owner may read.
        mode = path.stat().st_mode
        save_file({name: arrays(name) for name in names}, path, metadata={"format": "pt"})
        path.chmod(mode)
        files |= dict.fromkeys(names, file)
    if len(shards) > 1:
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(files.items()))}
        save_json(index, directory / (SAFETENSORS_NAME + _INDEX))


def _read_file(path: Path) -> dict[str, StoredTensor]:
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ConversionError(
                f"{path}: must hold the weights. Received: a pointer of Git LFS. Run `git lfs pull` first."
            )
    if path.suffix == ".safetensors":
        return {tensor.name: tensor for tensor in _read_safetensors(path)}
    return read_torch_file(path)


def _read_shards(index: Path) -> dict[str, StoredTensor]:
    listed = read_weight_map(index)
    places = {name: ", ".join(files) for name, files in listed.items()}
    all_tensors: dict[str, StoredTensor] = {}
    for file in sorted({file for files in listed.values() for file in files}):
        tensors = _read_file(index.parent / file)
        twice = sorted(set(tensors) & set(all_tensors))
        if twice:
            other = all_tensors[twice[0]].file.name
            raise ConversionError(
                f"{index.parent / file}: tensor `{twice[0]}` must be in one file. Received: also in {other}"
            )
        all_tensors |= tensors
    held = {name: tensor.file.name for name, tensor in all_tensors.items()}
    faults = [
        f"`{name}` in {places.get(name, 'no file')} by the index, in {held.get(name, 'no file')} in fact"
        for name in sorted(set(places) | set(held))
        if places.get(name) != held.get(name)
    ]
    if faults:
        raise ConversionError(f"{index}: every tensor must be where the index says. Received: {'; '.join(faults)}")
    return {name: all_tensors[name] for name in places}


def _read_safetensors(path: Path) -> Iterator[StoredTensor]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                item = file.get_slice(name)
                kind = str(item.get_dtype())
                shape = tuple(item.get_shape())
                yield StoredTensor(name, path, _DTYPES.get(kind, kind), shape, partial(_array, path, name))
    except (safetensors.SafetensorError, OSError) as error:
        raise ConversionError(f"{path}: not a readable safetensors file: {error}") from error


def _array(path: Path, name: str) -> np.ndarray:
    try:
        # Mapped memory would keep the pages of the file as long as the array exists.
        with safetensors.safe_open(path, framework="numpy", backend="pread") as file:
            array: np.ndarray = file.get_tensor(name)
    except (safetensors.SafetensorError, OSError) as error:
        raise ConversionError(f"{path}: tensor `{name}` is damaged: {error}") from error
    return array
