"""Recorded directories of Hugging Face transformers, and modified copies of them."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from bert_tf.conversion import Options, read_checkpoint
from bert_tf.conversion.checkpoint import Checkpoint
from tests.support.paths import TESTDATA

BERT_KINDS = ("pretraining", "masked_lm", "backbone", "sequence_classification", "token_classification",
              "question_answering", "multiple_choice")  # fmt: skip
MODERN_KINDS = tuple(f"modern_{kind}" for kind in BERT_KINDS if kind != "pretraining")
RELEASED_LAYOUTS = ("modern_base", "modern_large")
MODERN_KINDS += RELEASED_LAYOUTS
KINDS = BERT_KINDS + MODERN_KINDS
MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


def recorded(kind: str) -> Path:
    return TESTDATA / f"huggingface_{kind}"


def copied(kind: str, folder: Path, name: str = "copy") -> Path:
    target = folder / name
    shutil.copytree(recorded(kind), target)
    return target


def opened(directory: Path, options: Options | None = None) -> Checkpoint:
    return read_checkpoint(directory, "huggingface", options)


def change_json(path: Path, **fields: Any) -> None:
    """Sets keys of a JSON file; None removes one."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content |= fields
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))


def tensors(directory: Path) -> dict[str, np.ndarray]:
    return load_file(directory / "model.safetensors")


def replace_tensors(directory: Path, arrays: dict[str, np.ndarray]) -> None:
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, directory / "model.safetensors")


class Call:
    """Pickles as a call of a function by name, whether or not the function exists."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.module, self.name, self.arguments = module, name, arguments


class Storage:
    """Pickles as torch's reference to a storage."""

    def __init__(self, kind: str, key: str, elements: int, view: Any = ...) -> None:
        self.kind, self.key, self.elements, self.view = kind, key, elements, view


class _Global:
    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class _Pickler(pickle._Pickler):
    """Python's pickler, which can write names of modules that are not installed."""

    def persistent_id(self, item: Any) -> Any:
        if not isinstance(item, Storage):
            return None
        view = () if item.view is ... else (item.view,)
        return ("storage", _Global("torch", item.kind), item.key, "cpu", item.elements, *view)

    def save(self, item: Any, save_persistent_id: bool = True) -> None:
        if isinstance(item, _Global):
            self.write(pickle.GLOBAL + f"{item.module}\n{item.name}\n".encode())
        elif isinstance(item, Call):
            self.save(_Global(item.module, item.name))
            self.save(item.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(item, save_persistent_id)


def pickled(item: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    _Pickler(buffer, 2).dump(item)
    return buffer.getvalue()


def view(storage: Storage, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Call:
    return Call("torch._utils", "_rebuild_tensor_v2", storage, offset, shape, strides, False, OrderedDict())


def whole(array: np.ndarray, key: str) -> Call:
    """Returns a float32 tensor that covers its whole storage."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return view(Storage("FloatStorage", key, array.size), array.shape, strides)


def write_zip(path: Path, content: Any, storages: dict[str, bytes], **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(content))
        archive.writestr("archive/version", b"3\n")
        for name, value in members.items():
            archive.writestr(f"archive/{name}", value)
        for key, value in storages.items():
            archive.writestr(f"archive/data/{key}", value)


def write_legacy(path: Path, content: Any, storages: dict[str, np.ndarray], little_endian: bool = True) -> None:
    with path.open("wb") as file:
        for item in (MAGIC, VERSION, {"protocol_version": VERSION, "little_endian": little_endian}, content):
            file.write(pickled(item))
        file.write(pickled(list(storages)))
        for array in storages.values():
            file.write(struct.pack("<q", array.size) + array.tobytes())
