"""Runs SavedModels with an older TensorFlow in Java, through `OlderRuntime.java`."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pytest

from bert_tf.export.verify.comparison import Tensors

FOLDER = Path(__file__).parent
# `make older-runtime` downloads the jars and the wheel of tensorflow-text to its folder `lib`.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bert_tf" / "job_servers" / FOLDER.name
TEXT_LIBRARIES = ("_fast_bert_normalizer.so", "_fast_wordpiece_tokenizer.so")
# DataType (tensorflow/core/framework/types.proto).
STRING = 7
DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 3: np.dtype("<i4"), 9: np.dtype("<i8")}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}

needs_older_runtime = pytest.mark.skipif(
    not ((CACHE / "lib").is_dir() and shutil.which("java") and platform.machine() == "x86_64"),
    reason="needs Java and TensorFlow for Java, for Linux on x86-64: `make older-runtime`",
)


class Request(NamedTuple):
    """One request to a signature."""

    signature: str
    inputs: Tensors


class Answers(NamedTuple):
    """The version of TensorFlow, and for each model its answers: outputs, or an error message."""

    tensorflow: str
    of_models: list[list[Tensors | str]]


def answers(models: Sequence[tuple[Path, Sequence[Request]]], scratch: Path) -> Answers:
    """Runs the requests to each model in one Java process. Raises RuntimeError if it fails."""
    with (scratch / "requests").open("wb") as file:
        _write_integers(file, len(models))
        for folder, requests in models:
            _write_bytes(file, str(folder).encode())
            _write_integers(file, len(requests))
            for request in requests:
                _write_request(file, request)
    options = [
        # For a quick start instead of throughput.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # TensorFlow extracts its libraries there, once.
        f"-Dorg.bytedeco.javacpp.cachedir={CACHE / 'extracted'}",
    ]
    command = ["java", *options, "-cp", str(CACHE / "lib" / "*"), str(FOLDER / "OlderRuntime.java")]
    files = [str(scratch / "requests"), str(scratch / "answers"), *map(str, _text_libraries(scratch))]
    result = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"Java: exit status {result.returncode}\n{result.stderr[-3000:]}")
    with (scratch / "answers").open("rb") as file:
        version = _read_bytes(file).decode()
        found = Answers(version, [[_read_answer(file) for _ in requests] for _, requests in models])
        assert not file.read()
    return found


def _text_libraries(scratch: Path) -> list[Path]:
    """Extracts the operations from the wheel of tensorflow-text and returns their paths."""
    (wheel,) = (CACHE / "lib").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        return [Path(file.extract(f"tensorflow_text/python/ops/{name}", scratch)) for name in TEXT_LIBRARIES]


def _write_integers(file: BinaryIO, *values: int) -> None:
    file.write(struct.pack(f">{len(values)}i", *values))


def _write_bytes(file: BinaryIO, content: bytes) -> None:
    _write_integers(file, len(content))
    file.write(content)


def _write_request(file: BinaryIO, request: Request) -> None:
    _write_bytes(file, request.signature.encode())
    _write_integers(file, len(request.inputs))
    for name, value in request.inputs.items():
        _write_bytes(file, name.encode())
        _write_integers(file, STRING if value.dtype == object else NUMBERS[value.dtype], value.ndim)
        file.write(struct.pack(f">{value.ndim}q", *value.shape))
        for content in value.reshape(-1) if value.dtype == object else [value.tobytes()]:
            _write_bytes(file, content)


def _read_integers(file: BinaryIO, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}i", file.read(4 * count))


def _read_bytes(file: BinaryIO) -> bytes:
    (length,) = _read_integers(file, 1)
    return file.read(length)


def _read_answer(file: BinaryIO) -> Tensors | str:
    if error := _read_bytes(file).decode():
        return error
    (outputs,) = _read_integers(file, 1)
    return {_read_bytes(file).decode(): _read_tensor(file) for _ in range(outputs)}


def _read_tensor(file: BinaryIO) -> np.ndarray:
    number, rank = _read_integers(file, 2)
    shape = struct.unpack(f">{rank}q", file.read(8 * rank))
    if number != STRING:
        return np.frombuffer(_read_bytes(file), DTYPES[number]).reshape(shape)
    strings = np.empty(np.prod(shape, dtype=int), object)
    strings[:] = [_read_bytes(file) for _ in strings]
    return strings.reshape(shape)
