"""Tests reading files of torch.save without running their code."""

from __future__ import annotations

import multiprocessing
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bert_tf.conversion.formats.huggingface.torch_file import read_torch_file
from bert_tf.conversion.tensors import ConversionError
from tests.support.conversion.huggingface_samples import (
    MAGIC,
    VERSION,
    Call,
    Storage,
    pickled,
    recorded,
    view,
    write_legacy,
    write_zip,
)

NUMBERS = np.arange(12, dtype=np.float32)


def written(path: Path, form: str, content: Any, arrays: dict[str, np.ndarray]) -> Path:
    if form == "zip":
        write_zip(path, content, {key: array.tobytes() for key, array in arrays.items()})
    else:
        write_legacy(path, content, arrays)
    return path


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("FloatStorage", np.float32),
        ("HalfStorage", np.float16),
        ("BFloat16Storage", ml_dtypes.bfloat16),
        ("DoubleStorage", np.float64),
        ("LongStorage", np.int64),
    ],
)
def test_tensors_are_read_in_their_number_format(tmp_path: Path, form: str, kind: str, dtype: Any) -> None:
    array = np.arange(6).astype(dtype)
    content = OrderedDict(x=view(Storage(kind, "7", 6, *([None] if form == "legacy" else [])), (2, 3), (3, 1)))
    found = read_torch_file(written(tmp_path / "w.bin", form, content, {"7": array}))["x"]
    assert (found.dtype, found.shape) == (np.dtype(dtype).name, (2, 3))
    np.testing.assert_array_equal(found.read(), array.reshape(2, 3))


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((3, 4), (1, 3), 0), ((2, 2), (4, 1), 5), ((), (), 11), ((0, 3), (3, 1), 0)]
)
def test_views_of_a_storage(
    tmp_path: Path, form: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    content = {"x": view(Storage("FloatStorage", "a", 12), shape, strides, offset)}
    found = read_torch_file(written(tmp_path / "w.bin", form, content, {"a": NUMBERS}))["x"].read()
    expected = np.lib.stride_tricks.as_strided(NUMBERS[offset:], shape, [4 * stride for stride in strides])
    np.testing.assert_array_equal(found, expected)


def test_parameters_and_views_in_old_files(tmp_path: Path) -> None:
    part = view(Storage("FloatStorage", "a", 12, ("b", 4, 6)), (2, 3), (3, 1))
    content = {"x": Call("torch._utils", "_rebuild_parameter", part, True, OrderedDict())}
    path = tmp_path / "w.bin"
    write_legacy(path, content, {"a": NUMBERS})
    np.testing.assert_array_equal(read_torch_file(path)["x"].read(), NUMBERS[4:10].reshape(2, 3))


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("torch", "load"),
        ("torch.nn.modules.linear", "Linear"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("transformers.training_args", "TrainingArguments"),
    ],
)
def test_code_is_named_refused_and_not_executed(tmp_path: Path, form: str, module: str, name: str) -> None:
    trace = tmp_path / "trace"
    content = {"x": Call(module, name, f"touch {trace}")}
    path = written(tmp_path / "w.bin", form, content, {})
    with pytest.raises(ConversionError, match=rf"pickled code is not run. Received: `{module}.{name}`"):
        read_torch_file(path)
    assert not trace.exists()


def test_attributes_of_stand_ins_for_torch_cannot_be_set(tmp_path: Path) -> None:
    attack = b"".join(
        [b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n", pickle.EMPTY_DICT, b"X\x08\x00\x00\x00__call__K\x01s",
         pickle.BUILD, pickle.STOP]
    )  # fmt: skip
    path = tmp_path / "w.bin"
    write_zip(path, {}, {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", attack)
    with pytest.raises(ConversionError, match="not a readable file of torch.save"):
        read_torch_file(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"epoch": 3}, "must map names to tensors. Received: 'epoch', int"),
        ({"state_dict": {"x": view(Storage("FloatStorage", "a", 12), (12,), (1,))}}, "Received: 'state_dict', dict"),
        ([1], "must map names to tensors. Received: list"),
        ({"x": view(Storage("FloatStorage", "a", 12), (13,), (1,))}, "`x` must lie within its storage"),
        ({"x": view(Storage("FloatStorage", "a", 12), (2,), (1,), 11)}, "`x` must lie within its storage"),
        ({"x": view(Storage("FloatStorage", "a", 12), (2,), (-1,), 11)}, "`x` must lie within its storage"),
        ({"x": view(Storage("FloatStorage", "a", 12), (1000, 1000), (0, 0))}, "`x` must lie within its storage"),
        ({"x": view(Storage("FloatStorage", "a", 99), (12,), (1,))}, "storage (data/)?a must have"),
        ({"x": view(Storage("QInt8Storage", "a", 12), (12,), (1,))}, "Received: `torch.QInt8Storage`"),
    ],
)
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_objects_other_than_dictionaries_of_tensors_are_refused(
    tmp_path: Path, form: str, content: Any, reason: str
) -> None:
    arrays = {"a": NUMBERS} if "Storage" in repr(pickled(content)) else {}
    with pytest.raises(ConversionError, match=reason):
        read_torch_file(written(tmp_path / "w.bin", form, content, arrays))


@pytest.mark.parametrize("kind", ["masked_lm", "backbone"])
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.999])
def test_truncated_files_are_refused(tmp_path: Path, kind: str, kept: float) -> None:
    content = (recorded(kind) / "pytorch_model.bin").read_bytes()
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ConversionError, match=str(path)):
        read_torch_file(path)


def test_flipped_bits_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    write_zip(path, {"x": view(Storage("FloatStorage", "a", 12), (12,), (1,))}, {"a": NUMBERS.tobytes()})
    content = bytearray(path.read_bytes())
    place = content.index(NUMBERS.tobytes())
    content[place + 9] ^= 4
    path.write_bytes(content)
    with pytest.raises(ConversionError, match="archive/data/a is damaged"):
        read_torch_file(path)["x"].read()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"byteorder": b"big"}, "little-endian order. Received: b'big'"),
        ({"constants.pkl": b""}, "a TorchScript program"),
    ],
)
def test_other_archives_are_refused(tmp_path: Path, members: dict[str, bytes], reason: str) -> None:
    write_zip(tmp_path / "w.bin", {}, {}, **members)
    with pytest.raises(ConversionError, match=reason):
        read_torch_file(tmp_path / "w.bin")


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickled({}))
    with pytest.raises(ConversionError, match=r"Received: compressed data.pkl"):
        read_torch_file(tmp_path / "w.bin")


LEVELS = 3_000_000
DEEP = b")" + pickle.TUPLE1 * LEVELS
HOSTILE = {
    "tuple": DEEP,
    "key": pickle.EMPTY_DICT + DEEP + b"K\x01" + pickle.SETITEM,
    "storage": DEEP + pickle.BINPERSID,
    "value": pickle.EMPTY_DICT + b"X\x01\x00\x00\x00x" + DEEP + pickle.SETITEM,
    # A list that is filled after it was nested, and one that contains itself: their levels cannot be counted.
    "filled later": b"]q\x00]q\x01ah\x01]a",
    "itself": b"]q\x00h\x00a",
}


def check_hostile_pickles(folder: Path) -> None:
    """Exits with status 0 if every hostile pickle is refused, at every place of both formats."""
    plain = [pickled(item) for item in (MAGIC, VERSION, {"little_endian": True}, {}, [])]
    for name, opcodes in HOSTILE.items():
        attack = b"\x80\x02" + opcodes + pickle.STOP
        for place in range(1, len(plain)):
            path = folder / f"{name}_{place}.bin"
            path.write_bytes(b"".join([*plain[:place], attack, *plain[place + 1 :]]))
            with pytest.raises(ConversionError, match=str(path)):
                read_torch_file(path)
        with zipfile.ZipFile(folder / f"{name}.bin", "w") as archive:
            archive.writestr("archive/data.pkl", attack)
        with pytest.raises(ConversionError, match=f"{name}.bin"):
            read_torch_file(folder / f"{name}.bin")


def test_hostile_pickles_are_refused_without_a_crash(tmp_path: Path) -> None:
    # Runs in a separate process, because a crash in C would end the test session.
    child = multiprocessing.get_context("fork").Process(target=check_hostile_pickles, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("view_of", [("b", 4, 9), ("b", -1, 2), ("b", "4", 2)])
def test_views_outside_of_their_storage_are_refused(tmp_path: Path, view_of: tuple[Any, ...]) -> None:
    content = {"x": view(Storage("FloatStorage", "a", 12, view_of), (2,), (1,))}
    write_legacy(tmp_path / "w.bin", content, {"a": NUMBERS})
    with pytest.raises(ConversionError, match="beyond a storage of 12 elements"):
        read_torch_file(tmp_path / "w.bin")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickled({"x": 1}), "Received: a bare pickle"),
        (b"PK\x03\x04nothing", "not a readable zip"),
        (b"", "Received: b''"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "w.bin").write_bytes(content)
    with pytest.raises(ConversionError, match=reason):
        read_torch_file(tmp_path / "w.bin")


def test_old_files_of_other_machines_are_refused(tmp_path: Path) -> None:
    write_legacy(tmp_path / "w.bin", {}, {}, little_endian=False)
    with pytest.raises(ConversionError, match="little-endian"):
        read_torch_file(tmp_path / "w.bin")
