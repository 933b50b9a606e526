"""Weights: copies between models, stored weights, and weight files.

Weight files are HDF5. Only arrays stored in the file itself are read: in HDF5 an array can use another file as storage,
be assembled from other arrays, or be a link, so that an untrusted file could read any file of the machine.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import h5py
import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.config.files import sha256_of

# Maximum nesting of groups; Keras files have about eight levels.
MAX_DEPTH = 32
# Exceptions that h5py raises for a damaged file.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError)


def copy_weights(
    source: keras.Model, target: keras.Model, repeated: str = "", optional: Collection[str] = ("pooler",)
) -> None:
    """Copies weights from `source` to the weights of `target` with the same path.

    Args:
        source: model to copy from; `target` must have all its layers except the optional ones.
        target: model to copy to, with the same shapes except for `repeated`.
        repeated: path of a table that may differ in its number of rows: rows are repeated from the first on if `target`
            has more, and truncated if it has fewer.
        optional: names of layers that `target` may lack.

    Raises:
        RuntimeError: if `target` lacks weights of a layer that is not optional.
    """
    source_weights = stored_weights(source)
    for weight in target.weights:
        if weight.path in source_weights:
            values = source_weights.pop(weight.path)
            if weight.path == repeated:
                # The widths are equal, so np.resize repeats or truncates whole rows.
                values = np.resize(keras.ops.convert_to_numpy(values), weight.shape)
            weight.assign(values)
    missing = [path for path in source_weights if not set(optional) & set(path.split("/"))]
    if missing:
        raise RuntimeError(f"the target model lacks the weights {sorted(missing)}")


def stored_weights(model: keras.Model) -> dict[str, Any]:
    """Returns the weights of a model by path; a kernel with LoRA is merged and stands for its matrices."""
    merged: dict[str, Any] = {}
    left_out: set[str] = set()
    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            kernel = layer.kernel if isinstance(layer.kernel, keras.Variable) else layer._kernel
            value = layer.merged_kernel() if hasattr(layer, "merged_kernel") else layer.kernel
            merged[kernel.path] = keras.ops.convert_to_tensor(value)
            left_out |= {layer.lora_kernel_a.path, layer.lora_kernel_b.path}
    weights = {weight.path: weight.value for weight in model.weights}
    return {path: merged.get(path, value) for path, value in weights.items() if path not in left_out}


def write_weights(model: keras.Model, path: Path) -> None:
    """Writes every weight of `model` as one float32 dataset with checksums, named by the variable's path.

    Unlike Keras weight files, the file contains no optimizer state, and dataset names identify the weights.

    Args:
        model: built model.
        path: HDF5 file to create.

    Raises:
        ConfigError: if two weights have the same path, or a weight contains NaN or infinity.
    """
    paths = [weight.path for weight in model.weights]
    if len(set(paths)) != len(paths):
        repeated = sorted({name for name in paths if paths.count(name) > 1})
        raise ConfigError(f"the weight paths of a model must be unique. Received twice: {repeated}")
    # Without a buffer, whose content would be written, and fail, once more at the end.
    with path.open("w+b", buffering=0) as raw:
        target = _HDF5Target(raw)
        with h5py.File(target, "w") as file:
            for weight_path, value in stored_weights(model).items():
                array = np.asarray(keras.ops.convert_to_numpy(value), dtype=np.float32)
                check_finite(array, weight_path, "the model")
                file.create_dataset(weight_path, data=array, chunks=array.shape, fletcher32=True)
                target.check()
        target.check()
    _check_shapes(model, WeightsFile(path))


class _HDF5Target:
    """File object for h5py that takes a failed operation, such as a write to a full disk, as done; `check` reports it.

    HDF5 keeps a file open that it could not write to the end, and ends the process with a segmentation fault at exit.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._error: OSError | None = None

    def tell(self) -> int:
        """Returns the position."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Sets the position."""
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        """Reads bytes; h5py takes an object with this method for a file."""
        return self._tried(lambda: self._file.read(size), b"")

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer."""
        return self._tried(lambda: self._file.readinto(buffer), len(buffer))

    def write(self, data: Any) -> int:
        """Writes all data."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._tried(functools.partial(self._file.write, rest), len(rest)) :]
        return len(data)

    def truncate(self, size: int) -> int:
        """Sets the size of the file."""
        return self._tried(lambda: self._file.truncate(size), size)

    def flush(self) -> None:
        """Does nothing, because nothing is buffered."""

    def check(self) -> None:
        """Raises the OSError of the first failure."""
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror, self._file.name) from self._error

    def _tried(self, call: Callable[[], Any], instead: Any) -> Any:
        if self._error is None:
            try:
                return call()
            except OSError as error:
                self._error = error
        return instead


class Weights(Protocol):
    """Stored weights of a model by path; each is read on demand."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of all weights. Raises ConfigError for unreadable or unsafe files."""

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32. Raises ConfigError if it is damaged."""

    def sha256(self) -> str:
        """Returns a SHA-256 that identifies the values."""


@dataclass(frozen=True)
class WeightsFile:
    """A file of `write_weights`.

    Args:
        path: HDF5 file.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of all weights; see `stored_shapes`."""
        return stored_shapes(self.path)

    def read(self, name: str) -> np.ndarray:
        """Returns a weight; see `read_array`."""
        return read_array(self.path, name)

    def sha256(self) -> str:
        """Returns the SHA-256 of the file."""
        return sha256_of(self.path)


def read_weights(model: keras.Model, weights: Weights) -> None:
    """Loads stored weights into `model`, one at a time.

    Args:
        model: built model.
        weights: the weights of a preset.

    Raises:
        ConfigError: if the weights cannot be read, if names or shapes do not match the model, or if a weight contains
            NaN or infinity.
    """
    _check_shapes(model, weights)
    for weight in model.weights:
        array = weights.read(weight.path)
        check_finite(array, weight.path, weights)
        weight.assign(array)


def check_finite(array: np.ndarray, name: str, source: object) -> None:
    """Raises ConfigError with the names of weight and source if `array` contains NaN or infinity."""
    finite = np.isfinite(array)
    if not finite.all():
        raise ConfigError(
            f"{source}: weight `{name}` must hold finite numbers. "
            f"Received: NaN or infinity in {array.size - int(finite.sum())} of {array.size} elements"
        )


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all weights in a file by weight path.

    Args:
        path: HDF5 file.

    Returns:
        Shapes by weight path.

    Raises:
        ConfigError: if the file cannot be read, refers to another file, or contains a dtype other than float32.
    """
    arrays = stored_arrays(path)
    for name, array in arrays.items():
        if array.dtype != "float32":
            raise ConfigError(f"{path}: weight `{name}` must be float32. Received: {array.dtype}")
    return {name: array.shape for name, array in arrays.items()}


@dataclass(frozen=True)
class StoredArray:
    """Shape and dtype of an array in a file.

    Args:
        shape: shape of the array.
        dtype: numpy name of the dtype, or the Keras name if HDF5 does not support the dtype.
    """

    shape: tuple[int, ...]
    dtype: str


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """Returns shape and dtype of all arrays in an HDF5 file, without reading them.

    Args:
        path: HDF5 file.

    Returns:
        Arrays by their path in the file.

    Raises:
        ConfigError: if the file cannot be read, or if it contains a link, an array stored outside the file, or an
            incompletely stored array.
    """
    with _open(path) as file:
        return {
            name: StoredArray(dataset.shape, str(dataset.attrs.get("dtype", dataset.dtype)))
            for name, dataset in _datasets(file, path)
        }


def read_array(path: Path, name: str) -> np.ndarray:
    """Reads one array of a file.

    Args:
        path: HDF5 file.
        name: path of the array in the file.

    Returns:
        The array.

    Raises:
        ConfigError: see `stored_arrays`; also if the array is missing or damaged.
    """
    with _open(path) as file:
        parts = name.strip("/").split("/")
        item = file
        for depth, part in enumerate(parts):
            item = _member(item, part, "/".join(parts[: depth + 1]), path)
        if not isinstance(item, h5py.Dataset):
            raise ConfigError(f"{path}: `{name}` must be an array. Received: a group")
        try:
            return np.asarray(item[()])
        except _DAMAGE as error:
            raise ConfigError(f"{path}: weight `{name}` is damaged: {error}") from error


def _check_shapes(model: keras.Model, weights: Weights) -> None:
    expected = {name: tuple(value.shape) for name, value in stored_weights(model).items()}
    shapes = weights.shapes()
    for name, shape in expected.items():
        if name not in shapes:
            raise ConfigError(f"{weights}: does not match the model: weight `{name}` {shape} is missing.")
        if shapes[name] != shape:
            raise ConfigError(
                f"{weights}: does not match the model: weight `{name}` must have shape {shape}. "
                f"Received: {shapes[name]}"
            )
    unknown = sorted(set(shapes) - set(expected))
    if unknown:
        raise ConfigError(f"{weights}: does not match the model, which has no weight `{unknown[0]}`.")


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ConfigError:
        raise
    except _DAMAGE as error:
        raise ConfigError(f"{path}: not a readable HDF5 file: {error}") from error


def _datasets(file: h5py.File, path: Path) -> Iterator[tuple[str, h5py.Dataset]]:
    groups = [("", file, 1)]
    seen = set()
    while groups:
        prefix, group, depth = groups.pop()
        # Groups may contain each other.
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            continue
        seen.add(address)
        if depth > MAX_DEPTH:
            raise ConfigError(f"{path}: groups must be nested at most {MAX_DEPTH} levels deep. Received: more levels")
        for key in group:
            name = f"{prefix}{key}"
            item = _member(group, key, name, path)
            if isinstance(item, h5py.Group):
                groups.append((f"{name}/", item, depth + 1))
            elif isinstance(item, h5py.Dataset):
                yield name, item


def _member(group: h5py.Group, key: str, name: str, path: Path) -> h5py.Group | h5py.Dataset | h5py.Datatype:
    """Returns member `key` of a group; `name` is its path from the root of the file."""
    link = group.get(key, getlink=True)
    if link is None:
        raise ConfigError(f"{path}: `{name}` is missing.")
    if isinstance(link, h5py.ExternalLink):
        raise _external_error(path, name, f"a link to `{link.path}` in {link.filename!r}")
    if isinstance(link, h5py.SoftLink):
        raise _external_error(path, name, f"a link to `{link.path}`")
    item = group[key]
    if isinstance(item, h5py.Dataset):
        if item.external:
            raise _external_error(path, name, f"storage in {item.external[0][0]!r}")
        if item.is_virtual:
            raise _external_error(path, name, "a virtual array")
        if not _is_complete(item):
            raise ConfigError(
                f"{path}: weight `{name}` of shape {item.shape} must be stored completely. Received: a part"
            )
    return item


def _external_error(path: Path, name: str, received: str) -> ConfigError:
    return ConfigError(
        f"{path}: `{name}` must be an array or a group stored in this file. Received: {received}. "
        "Do not use this file unless you trust its source."
    )


def _is_complete(dataset: h5py.Dataset) -> bool:
    """Returns False if an array is larger than its data in the file, which HDF5 would fill with zeros."""
    if not dataset.size:
        return True
    if dataset.chunks is None:
        return dataset.id.get_storage_size() >= dataset.nbytes
    chunks = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() >= chunks
