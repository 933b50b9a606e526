"""Reads files of `torch.save` without torch and without running pickled code.

There are two formats. Since torch 1.6 a file is a zip archive (`data.pkl`, and one uncompressed member per storage).
Older files hold five pickles in a row (magic number, version, system, tensors, names of storages), followed by the
length and the data of each storage.
"""

from __future__ import annotations

import reprlib
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from bert_tf.conversion.formats.huggingface.tensor_pickle import TensorPickle, ordered
from bert_tf.conversion.formats.name_table import StoredTensor
from bert_tf.conversion.tensors import ConversionError

_MAGIC_NUMBER, _VERSION = 0x1950A86A20F9469CFC6C, 1001
# Pickle protocols 2 to 5 all begin the magic number with these bytes.
_MAGIC_BYTES = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_ZIP_BYTES = b"PK\x03\x04"
_DTYPES: dict[str, np.dtype] = {
    "torch.FloatStorage": np.dtype(np.float32),
    "torch.DoubleStorage": np.dtype(np.float64),
    "torch.HalfStorage": np.dtype(np.float16),
    "torch.BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "torch.LongStorage": np.dtype(np.int64),
    "torch.IntStorage": np.dtype(np.int32),
    "torch.ShortStorage": np.dtype(np.int16),
    "torch.CharStorage": np.dtype(np.int8),
    "torch.ByteStorage": np.dtype(np.uint8),
    "torch.BoolStorage": np.dtype(np.bool_),
}


class _Storage(NamedTuple):
    key: str
    kind: str
    first: int
    elements: int


class _View(NamedTuple):
    storage: Any
    offset: Any
    size: Any
    stride: Any


_KNOWN: dict[str, Any] = {name: name for name in _DTYPES} | {
    "collections.OrderedDict": ordered,
    # Further arguments concern gradients.
    "torch._utils._rebuild_tensor_v2": lambda storage, offset, size, stride, *_: _View(storage, offset, size, stride),
    "torch._utils._rebuild_parameter": lambda data, *_: data,
}


class _Reader:
    """Reads the pickles of a file, and collects the storages that they name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.storages: dict[str, _Storage] = {}

    def load(self, file: IO[bytes]) -> Any:
        """Returns the object of the next pickle. Raises ConversionError for a damaged pickle or an unknown global."""
        return TensorPickle(self._path, self._find, self._persistent).load(file)

    def _find(self, name: str) -> Any:
        if name not in _KNOWN:
            raise ConversionError(f"{self._path}: must hold only tensors; pickled code is not run. Received: `{name}`")
        return _KNOWN[name]

    def _persistent(self, pid: Any) -> _Storage:
        """Returns the storage of a persistent id."""
        kind, storage, key, _, elements, *view = pid
        known = kind == "storage" and isinstance(storage, str) and storage in _DTYPES
        if not known or type(key) not in (str, int) or type(elements) is not int:
            raise ValueError(f"unknown persistent id {reprlib.repr(pid)}")
        root = self.storages.setdefault(str(key), _Storage(str(key), storage, 0, elements))
        if view and view[0] is not None:
            _, first, length = view[0]
            if type(first) is not int or type(length) is not int or not 0 <= first <= first + length <= root.elements:
                raise ValueError(f"view {reprlib.repr(view[0])} beyond a storage of {root.elements} elements")
            return _Storage(root.key, storage, first, length)
        return root


def read_torch_file(path: Path) -> dict[str, StoredTensor]:
    """Returns the tensors in a file of `torch.save`, in its order. Raises ConversionError for any other contents."""
    with path.open("rb") as file:
        start = file.read(32)
    if start.startswith(_ZIP_BYTES):
        return _read_zip(path)
    if start[2:].startswith(_MAGIC_BYTES):
        return _read_legacy(path)
    kind = "a bare pickle" if start[:1] == b"\x80" else repr(start[:8])
    raise ConversionError(
        f"{path}: must be a file of torch.save, either a zip archive or the format before torch 1.6. Received: {kind}"
    )


def _read_zip(path: Path) -> dict[str, StoredTensor]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
            if "constants.pkl" in members:
                raise ConversionError(
                    f"{path}: must hold tensors only. Received: a TorchScript program (constants.pkl)"
                )
            packed = [name for name, info in members.items() if info.compress_type != zipfile.ZIP_STORED]
            if packed or "data.pkl" not in members:
                reason = f"compressed {packed[0]}" if packed else "no data.pkl"
                raise ConversionError(f"{path}: must be a zip archive written by torch.save. Received: {reason}")
            order = archive.read(members["byteorder"]) if "byteorder" in members else b"little"
            if order != b"little":
                raise ConversionError(f"{path}: bytes must be in little-endian order. Received: {order!r}")
            with archive.open(members["data.pkl"]) as file:
                reader = _Reader(path)
                content = reader.load(file)
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ConversionError(f"{path}: not a readable zip archive: {error}") from error
    for key, storage in reader.storages.items():
        size = storage.elements * _DTYPES[storage.kind].itemsize
        stored = members[f"data/{key}"].file_size if f"data/{key}" in members else None
        # Some versions pad the last storage; no version writes fewer bytes than it declares.
        if stored is None or stored < size:
            raise ConversionError(f"{path}: storage data/{key} must have {size} bytes. Received: {stored}")
    return _tensors(content, path, lambda key: partial(_zip_bytes, path, members[f"data/{key}"].filename))


def _zip_bytes(path: Path, member: str, first: int, count: int) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            # The checksum is verified only if the member is read from its start.
            if first:
                file.seek(first)
                return file.read(count)
            content = file.read(count)
            # The checksum is compared at the end of the member.
            file.read(1)
            return content
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ConversionError(f"{path}: {member} is damaged: {error}") from error


def _read_legacy(path: Path) -> dict[str, StoredTensor]:
    size = path.stat().st_size
    with path.open("rb") as file:
        magic, version, system = (_Reader(path).load(file) for _ in range(3))
        if magic != _MAGIC_NUMBER or version != _VERSION:
            raise ConversionError(
                f"{path}: must be version {_VERSION} of the format. Received: {reprlib.repr(version)}"
            )
        if not isinstance(system, Mapping) or system.get("little_endian") is not True:
            raise ConversionError(f"{path}: bytes must be in little-endian order. Received: {reprlib.repr(system)}")
        reader = _Reader(path)
        content = reader.load(file)
        keys = _Reader(path).load(file)
        plain = isinstance(keys, list) and all(type(key) in (str, int) for key in keys)
        if not plain or set(map(str, keys)) != set(reader.storages):
            raise ConversionError(
                f"{path}: the listed storages must be those of its tensors. Received: {reprlib.repr(keys)}"
            )
        starts: dict[str, int] = {}
        for key in map(str, keys):
            storage = reader.storages[key]
            elements = int.from_bytes(file.read(8), "little", signed=True)
            starts[key] = file.tell()
            end = starts[key] + storage.elements * _DTYPES[storage.kind].itemsize
            if elements != storage.elements or end > size:
                raise ConversionError(
                    f"{path}: storage {key} must have {storage.elements} elements. "
                    f"Received: {elements} in {size - starts[key]} bytes"
                )
            file.seek(end)
    return _tensors(content, path, lambda key: partial(_file_bytes, path, starts[key]))


def _file_bytes(path: Path, start: int, first: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start + first)
        return file.read(count)


def _tensors(
    content: Any, path: Path, bytes_of: Callable[[str], Callable[[int, int], bytes]]
) -> dict[str, StoredTensor]:
    if not isinstance(content, Mapping):
        raise ConversionError(f"{path}: must map names to tensors. Received: {type(content).__name__}")
    tensors: dict[str, StoredTensor] = {}
    for name, view in content.items():
        if not isinstance(name, str) or type(view) is not _View:
            raise ConversionError(f"{path}: must map names to tensors. Received: {name!r}, {type(view).__name__}")
        storage = _checked(name, view, path)
        tensors[name] = StoredTensor(
            name=name,
            file=path,
            dtype=_DTYPES[storage.kind].name,
            shape=tuple(view.size),
            read=partial(_array, view, name, path, bytes_of(storage.key)),
            place=(path, storage.key, storage.kind, storage.first + view.offset, tuple(view.size), tuple(view.stride)),
        )
    return tensors


def _checked(name: str, view: _View, path: Path) -> _Storage:
    """Returns the storage of a tensor. Raises ConversionError if the tensor exceeds its extent or size."""
    are_shapes = isinstance(view.size, tuple | list) and isinstance(view.stride, tuple | list)
    numbers = (view.offset, *view.size, *view.stride) if are_shapes else (None,)
    storage = view.storage
    if type(storage) is _Storage and all(type(number) is int and number >= 0 for number in numbers):
        elements = int(np.prod([1, *view.size], dtype=object))
        last = view.offset + _extent(view)
        if len(view.size) == len(view.stride) and elements <= storage.elements and last <= storage.elements:
            return storage
    raise ConversionError(
        f"{path}: tensor `{name}` must lie within its storage. "
        f"Received: shape {reprlib.repr(view.size)}, strides {reprlib.repr(view.stride)}, "
        f"offset {reprlib.repr(view.offset)} of {reprlib.repr(storage)}"
    )


def _extent(view: _View) -> int:
    if 0 in view.size:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(view.size, view.stride, strict=False))


def _array(view: _View, name: str, path: Path, bytes_of: Callable[[int, int], bytes]) -> np.ndarray:
    dtype, extent = _DTYPES[view.storage.kind], _extent(view)
    content = bytes_of((view.storage.first + view.offset) * dtype.itemsize, extent * dtype.itemsize)
    if len(content) != extent * dtype.itemsize:
        raise ConversionError(f"{path}: tensor `{name}` is cut off after {len(content)} bytes.")
    strides = tuple(stride * dtype.itemsize for stride in view.stride)
    return np.lib.stride_tricks.as_strided(np.frombuffer(content, dtype), tuple(view.size), strides, writeable=False)
