"""`python session_run.py FOLDER NAMES` runs a recording on a SavedModel through TensorFlow's C API alone.

This is as close to TF Serving as the wheels allow: its loader, its sessions, and tensorflow-text's operations as
libraries, without the Python packages of TensorFlow and tensorflow-text. NAMES is a JSON file of signature -> `inputs`
and `outputs` -> name -> name of the tensor. If an output differs, it exits with status 1 and the reasons on stderr.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import struct
import sys
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.export.verify.comparison import RECORDING, compare_outputs, read_recording

TEXT_LIBRARIES = ("_fast_bert_normalizer.so", "_fast_wordpiece_tokenizer.so", "_trimmer_ops.so")
# TF_DataType (tensorflow/c/tf_datatype.h).
STRING = 7
DTYPES = {1: np.dtype(np.float32), 3: np.dtype(np.int32), 9: np.dtype(np.int64)}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
# TF_TString (tensorflow/core/platform/ctstring_internal.h): 24 bytes, its kind in the two lowest bits.
STRING_BYTES, SMALL, LARGE, OFFSET, VIEW = 24, 0, 1, 2, 3


class Output(ctypes.Structure):
    _fields_ = (("operation", c_void_p), ("index", c_int))


def site(package: str) -> Path:
    """Returns the folder of a package without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def library() -> ctypes.CDLL:
    folder = site("tensorflow")
    ctypes.CDLL(str(folder / "libtensorflow_framework.so.2"), ctypes.RTLD_GLOBAL)
    c = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"), ctypes.RTLD_GLOBAL)
    pointers = ("NewStatus", "NewGraph", "NewSessionOptions", "AllocateTensor", "TensorData", "GraphOperationByName",
                "LoadSessionFromSavedModel", "LoadLibrary")  # fmt: skip
    for name in pointers:
        getattr(c, f"TF_{name}").restype = c_void_p
    c.TF_Message.restype, c.TF_Message.argtypes = c_char_p, [c_void_p]
    c.TF_GetCode.argtypes = c.TF_TensorType.argtypes = c.TF_NumDims.argtypes = c.TF_TensorData.argtypes = [c_void_p]
    c.TF_Dim.restype, c.TF_Dim.argtypes = c_int64, [c_void_p, c_int]
    c.TF_GraphOperationByName.argtypes = [c_void_p, c_char_p]
    c.TF_AllocateTensor.argtypes = [c_int, POINTER(c_int64), c_int, c_size_t]
    c.TF_LoadLibrary.argtypes = [c_char_p, c_void_p]
    return c


class Session:
    """A loaded SavedModel."""

    def __init__(self, folder: Path) -> None:
        self.c = library()
        self.status = c_void_p(self.c.TF_NewStatus())
        for name in TEXT_LIBRARIES:
            path = site("tensorflow_text") / "python" / "ops" / name
            self.c.TF_LoadLibrary(str(path).encode(), self.status)
            self.check()
        self.graph = c_void_p(self.c.TF_NewGraph())
        tags = (c_char_p * 1)(b"serve")
        options = c_void_p(self.c.TF_NewSessionOptions())
        loaded = self.c.TF_LoadSessionFromSavedModel(
            options, None, str(folder).encode(), tags, 1, self.graph, None, self.status
        )
        self.check()
        self.session = c_void_p(loaded)

    def check(self) -> None:
        if self.c.TF_GetCode(self.status):
            raise RuntimeError(self.c.TF_Message(self.status).decode())

    def run(self, inputs: dict[str, np.ndarray], outputs: list[str]) -> list[np.ndarray]:
        """Returns the tensors named `outputs` for those of `inputs`, by name."""
        held: list[Any] = []
        given = (c_void_p * len(inputs))(*(self.tensor(value, held) for value in inputs.values()))
        found = (c_void_p * len(outputs))()
        self.c.TF_SessionRun(
            self.session, None, self.places(list(inputs)), given, len(inputs), self.places(outputs), found,
            len(outputs), None, 0, None, self.status,
        )  # fmt: skip
        self.check()
        return [self.array(c_void_p(tensor)) for tensor in found]

    def places(self, names: list[str]) -> Any:
        found = []
        for name in names:
            operation, _, index = name.partition(":")
            found.append(Output(self.c.TF_GraphOperationByName(self.graph, operation.encode()), int(index)))
            assert found[-1].operation, name
        return (Output * len(found))(*found)

    def tensor(self, value: np.ndarray, held: list[Any]) -> int:
        content = value.tobytes()
        if value.dtype == object:
            buffers = [ctypes.create_string_buffer(string, len(string)) for string in value.reshape(-1)]
            held += buffers
            views = (struct.pack("<QQQ", len(b) << 2 | VIEW, ctypes.addressof(b), 0) for b in buffers)
            content = b"".join(views)
        number = STRING if value.dtype == object else NUMBERS[value.dtype]
        tensor = self.c.TF_AllocateTensor(number, (c_int64 * value.ndim)(*value.shape), value.ndim, len(content))
        ctypes.memmove(self.c.TF_TensorData(tensor), content, len(content))
        return tensor

    def array(self, tensor: c_void_p) -> np.ndarray:
        shape = [self.c.TF_Dim(tensor, axis) for axis in range(self.c.TF_NumDims(tensor))]
        number, count = self.c.TF_TensorType(tensor), int(np.prod(shape))
        address = self.c.TF_TensorData(tensor)
        if number != STRING:
            content = ctypes.string_at(address, count * DTYPES[number].itemsize) if count else b""
            return np.frombuffer(content, DTYPES[number]).reshape(shape)
        strings = np.empty(count, object)
        strings[:] = [string_at(address + place * STRING_BYTES) for place in range(count)]
        return strings.reshape(shape)


def string_at(address: int) -> bytes:
    content = ctypes.string_at(address, STRING_BYTES)
    size, second, third = struct.unpack("<QQQ", content)
    if size & 3 == SMALL:
        return content[1 : 1 + (content[0] >> 2)]
    if size & 3 == OFFSET:
        return ctypes.string_at(address + (size >> 32), (size & 0xFFFFFFFF) >> 2)
    return ctypes.string_at(third if size & 3 == LARGE else second, size >> 2)


def main(folder: Path, names: Path) -> int:
    session, of_signature = Session(folder), json.loads(names.read_text(encoding="utf-8"))
    cases, _ = read_recording(folder / RECORDING)
    failures = 0
    for case in cases:
        tensors = of_signature[case.signature]
        inputs = {tensors["inputs"][name]: value for name, value in case.inputs.items()}
        found = session.run(inputs, [tensors["outputs"][name] for name in case.outputs])
        for name, _, fault in compare_outputs(dict(zip(case.outputs, found, strict=True)), case):
            if fault:
                failures += 1
                print(f"{case.signature} {name}: {fault}", file=sys.stderr)
    assert "tensorflow" not in sys.modules
    print(json.dumps({"signatures": sorted({case.signature for case in cases}), "cases": len(cases)}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
