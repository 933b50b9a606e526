"""Reads HDF5 weight files safely: only arrays stored in the file itself.

In HDF5 an array can use another file as storage, be assembled from other arrays, or be a link. An untrusted file could
therefore read any file of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from bert_tf.config import ConfigError

# Maximum nesting of groups; Keras files have about eight levels.
MAX_DEPTH = 32
# Exceptions that h5py raises for a damaged file.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError)


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
