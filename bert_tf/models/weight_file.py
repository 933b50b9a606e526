"""HDF5 files of weights, of which nothing is read but arrays that lie in the file itself.

HDF5 lets an array name another file as its storage, assemble itself from others, and stand behind a link. A file that
somebody else has made could so read any file of this machine.
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

# Levels of groups; files of Keras have about eight.
MAX_DEPTH = 32
# What h5py raises for a damaged file.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError)


@dataclass(frozen=True)
class StoredArray:
    """An array of a file.

    Args:
        shape: of the array.
        dtype: number format by numpy's name, or as Keras names it where HDF5 has no such format.
    """

    shape: tuple[int, ...]
    dtype: str


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """Returns the arrays of an HDF5 file by their paths in it; none is read.

    Raises:
        ConfigError: for a file that cannot be read, and one that holds a link, an array whose storage is not in the
            file, or an array that is not wholly stored.
    """
    with _opened(path) as file:
        return {
            name: StoredArray(dataset.shape, str(dataset.attrs.get("dtype", dataset.dtype)))
            for name, dataset in _datasets(file, path)
        }


def read_array(path: Path, name: str) -> np.ndarray:
    """Returns one array of a file. Raises ConfigError as `stored_arrays` does, and where its bytes are damaged."""
    with _opened(path) as file:
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
def _opened(path: Path) -> Iterator[h5py.File]:
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
        # Groups may hold each other.
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
    """Returns what a group holds under `key`, which is `name` from the root of the file."""
    link = group.get(key, getlink=True)
    if link is None:
        raise ConfigError(f"{path}: `{name}` must be there. Received: nothing")
    if isinstance(link, h5py.ExternalLink):
        raise _outside(path, name, f"a link to `{link.path}` in {link.filename!r}")
    if isinstance(link, h5py.SoftLink):
        raise _outside(path, name, f"a link to `{link.path}`")
    item = group[key]
    if isinstance(item, h5py.Dataset):
        if item.external:
            raise _outside(path, name, f"storage in {item.external[0][0]!r}")
        if item.is_virtual:
            raise _outside(path, name, "a virtual array, made of others")
        if not _is_whole(item):
            raise ConfigError(f"{path}: weight `{name}` of shape {item.shape} must be wholly stored. Received: a part")
    return item


def _outside(path: Path, name: str, received: str) -> ConfigError:
    return ConfigError(
        f"{path}: `{name}` must be an array or a group of this file itself. Received: {received}. "
        "Do not use this file unless you know who made it."
    )


def _is_whole(dataset: h5py.Dataset) -> bool:
    """Returns False where an array claims more than the file holds, which HDF5 would fill with zeros."""
    if not dataset.size:
        return True
    if dataset.chunks is None:
        return dataset.id.get_storage_size() >= dataset.nbytes
    chunks = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() >= chunks
