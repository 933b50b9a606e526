"""Maps names and layouts of one format's tensors to those of the original, in both directions.

Shape legend: H hidden, N heads, D = H / N.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion.checkpoint import DTYPES, Checkpoint, read_json
from bert_tf.conversion.tensors import ConversionError, Heads, Tensor, check_tensors, expected_shapes

_LAYER = re.compile(r"/layer_(\d+)/")


@dataclass(frozen=True)
class StoredTensor:
    """One array in a file, with its name and shape there and numpy's name of the dtype.

    `place` is the location of the bytes, equal for two names of the same bytes; None if the file shares none.
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    place: object = None


@dataclass(frozen=True)
class NameTable:
    """The names and layouts of one format, by the original's names.

    Args:
        rows: names of single tensors, or of layers whose tensors end with `kinds`; `{i}` is the number of an encoder
            layer, `{next}` the following number, `{_i}` is empty for the first layer and `_{i}` for the others.
        kinds: ends of names by those of the original.
        transposed: ends of the original's names whose tensors have their axes in reverse order.
        by_head: whether attention has (H, N, D) and (N, D, H) for its (H, H) kernels, and (N, D) for biases.
        comparable: removes from a name what differs between versions of the format.
    """

    rows: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    transposed: tuple[str, ...] = ()
    by_head: bool = False
    comparable: Callable[[str], str] = str

    def name(self, name: str) -> str:
        """Returns the format's name of a tensor; without `rows` it is the original's."""
        if not self.rows:
            return name
        pattern, layer = _LAYER.sub("/layer_{i}/", name), _LAYER.search(name)
        owner, _, kind = pattern.rpartition("/")
        row = self.rows.get(pattern) or self.rows[owner] + self.kinds[kind]
        if layer is None:
            return row
        number = int(layer[1])
        return row.format(i=number, next=number + 1, _i=f"_{number}" if number else "")

    def shape(self, name: str, shape: tuple[int, ...], config: BertConfig) -> tuple[int, ...]:
        """Returns the format's shape of a tensor of `shape` in the original."""
        if self.by_head and "/attention/self/" in name:
            return (*shape[:-1], config.num_heads, shape[-1] // config.num_heads)
        if self.by_head and name.endswith("/attention/output/dense/kernel"):
            return (config.num_heads, shape[0] // config.num_heads, shape[1])
        return shape[::-1] if name.endswith(self.transposed) else shape

    def array(self, name: str, checkpoint: Checkpoint) -> np.ndarray:
        """Returns one tensor of a checkpoint in the format's layout."""
        array = checkpoint.array(name)
        shape = self.shape(name, array.shape, checkpoint.config)
        return (array.T if name.endswith(self.transposed) else array).reshape(shape)

    def read(
        self, stored: Mapping[str, StoredTensor], config: BertConfig, heads: Heads, source: object
    ) -> dict[str, Tensor]:
        """Returns a model's tensors, in its layout. Raises ConversionError if `stored` has others or other shapes."""
        shapes = expected_shapes(config, heads)
        originals = {self.comparable(self.name(name)): name for name in shapes}
        tensors = {}
        for key, tensor in stored.items():
            name = originals.get(key, tensor.name)
            if name in shapes and tensor.dtype not in DTYPES:
                raise ConversionError(
                    f"{tensor.file}: tensor `{tensor.name}` must have dtype {', '.join(DTYPES)}; quantized weights "
                    f"cannot be read. Received: {tensor.dtype}"
                )
            turned = name in shapes and name.endswith(self.transposed)
            shape = tensor.shape[::-1] if turned else tensor.shape
            if name in shapes and tensor.shape == self.shape(name, shapes[name], config):
                shape = shapes[name]
            tensors[name] = Tensor(tensor.name, shape, partial(_read, tensor, turned, shape))
        check_tensors(tensors, config, heads, source)
        return {name: tensors[name] for name in shapes}


def _read(tensor: StoredTensor, turned: bool, shape: tuple[int, ...]) -> np.ndarray:
    array = tensor.read()
    return (array.T if turned else array).reshape(shape)


def by_name(tensors: Iterable[StoredTensor], name: Callable[[StoredTensor], str]) -> dict[str, StoredTensor]:
    """Returns tensors by the results of `name`. Raises ConversionError if it is the same for two of them."""
    result: dict[str, StoredTensor] = {}
    for tensor in tensors:
        other = result.setdefault(name(tensor), tensor)
        if other is not tensor:
            raise ConversionError(f"{tensor.file}: `{tensor.name}` and `{other.name}` are names of one tensor.")
    return result


def most_common_dtype(tensors: Iterable[StoredTensor]) -> str:
    """Returns the dtype of most elements."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + int(np.prod(tensor.shape))
    return max(sizes, key=lambda dtype: sizes[dtype], default=DTYPES[0])


def split_shards(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Divides names, in order, among files of at most `limit` bytes; larger content gets its own file."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if shards[-1] and filled + size > limit:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    return shards


def read_weight_map(index: Path) -> dict[str, list[str]]:
    """Returns the files of each weight in an index of shards. Raises ConversionError unless they are beside it."""
    mapping = read_json(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise ConversionError(f"{index}: `weight_map` must map every weight to a file. Received: {mapping!r}")
    files = {name: value if isinstance(value, list) else [value] for name, value in mapping.items()}
    for file in dict.fromkeys(file for listed in files.values() for file in map(str, listed)):
        if Path(file).name != file or not (index.parent / file).is_file():
            raise ConversionError(f"{index}: `weight_map` must name files beside it. Received: {file!r}, no such file")
    return files
