"""`python -m benchmarks.tf_serving_operations`: writes the operations of TF Serving's releases to tf_serving.json.

The table is bert_tf/export/verify/tf_serving.json, which `bert_tf.export.verify.tf_serving` reads. TF Serving publishes
no list of its operations. They are those of the TensorFlow and of the tensorflow-text that a release is built from, so
that the packages of these versions are downloaded from PyPI (2 GB, one after the other, for Linux on x86-64) and their
libraries asked for the operations that they register. TensorFlow Decision Forests, which TF Serving links too, is left
out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).parent.parent / "bert_tf/export/verify/tf_serving.json"
SOURCE = (
    "python -m benchmarks.tf_serving_operations: operations that the libraries of tensorflow-cpu and tensorflow-text "
    "register, in the versions that tensorflow/serving pins at the tag `server` (WORKSPACE, "
    "tensorflow_serving/workspace.bzl). 2.21 has no tag yet: TensorFlow 2.21 with the tensorflow-text of the master "
    "branch is assumed. Attributes are those that an operation has only since a release."
)
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_27_x86_64")


class Release(NamedTuple):
    """Commits and versions that a release of TF Serving is built from."""

    server: str
    tensorflow: str
    tensorflow_text: str


RELEASES = {
    "2.13": Release("2.13.1", "2.13.1", "2.12.1"),
    "2.14": Release("2.14.1", "2.14.1", "2.12.1"),
    "2.15": Release("2.15.1", "2.15.1", "2.12.1"),
    "2.16": Release("2.16.1", "2.16.1", "2.12.1"),
    "2.17": Release("2.17.1", "2.17.0", "2.12.1"),
    "2.18": Release("2.18.1", "2.18.1", "2.12.1"),
    "2.19": Release("2.19.1", "2.19.1", "2.12.1"),
    "2.20": Release("2.20.0", "2.20.0", "2.20.0"),
    "2.21": Release("master", "2.21.0", "2.20.0"),
}
# Attributes by operation.
Operations = dict[str, set[str]]


class _Buffer(ctypes.Structure):
    """TF_Buffer of TensorFlow's C API."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p))


def registered(folder: Path, extensions: Sequence[Path]) -> bytes:
    """Returns the OpList of the TensorFlow in a folder, after it loaded extensions.

    Call it in a new process that has not imported TensorFlow.
    """
    ctypes.CDLL(str(folder / "libtensorflow_framework.so.2"), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"), mode=ctypes.RTLD_GLOBAL)
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_GetAllOpList.restype = ctypes.POINTER(_Buffer)
    status = ctypes.c_void_p(library.TF_NewStatus())
    for extension in extensions:
        library.TF_LoadLibrary(str(extension).encode(), status)
        if library.TF_GetCode(status):
            raise RuntimeError(f"{extension}: {library.TF_Message(status).decode()}")
    buffer = library.TF_GetAllOpList().contents
    return ctypes.string_at(buffer.data, buffer.length)


def operations(folder: Path, extensions: Sequence[Path] = ()) -> Operations:
    """Returns the operations that a SavedModel may hold; names with "_" at the start are internal ones."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        serialized = pool.apply(registered, (folder, extensions))
    # The process above imports this module, and must not load the installed TensorFlow.
    from tensorflow.core.framework.op_def_pb2 import OpList

    return {
        operation.name: {attribute.name for attribute in operation.attr}
        for operation in OpList.FromString(serialized).op
        if not operation.name.startswith("_")
    }


def download(package: str, version: str, folder: Path) -> list[Path]:
    """Downloads a package and returns its shared libraries."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    command += [f"--dest={folder}", "--python-version=3.11"]
    command += [f"--platform={platform}" for platform in _PLATFORMS]
    subprocess.run([*command, f"{package}=={version}"], check=True)
    (wheel,) = folder.glob("*.whl")
    libraries = []
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = folder / Path(member.filename).name
            if ".so" in path.suffixes:
                path.write_bytes(archive.read(member))
                libraries.append(path)
    wheel.unlink()
    return libraries


def tensorflow_operations(version: str) -> Operations:
    """Returns the operations of a version of TensorFlow."""
    with tempfile.TemporaryDirectory() as folder:
        download("tensorflow-cpu", version, Path(folder))
        return operations(Path(folder))


def text_operations(version: str) -> list[str]:
    """Returns the sorted operations of a version of tensorflow-text.

    The package has one library for each part of `ops_lib` (tensorflow_text/BUILD), which is what TF Serving links.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as text_folder:
        download("tensorflow-cpu", version, Path(folder))
        libraries = download("tensorflow-text", version, Path(text_folder))
        # Others are modules of Python.
        extensions = sorted(library for library in libraries if library.name.startswith("_"))
        return sorted(operations(Path(folder), extensions).keys() - operations(Path(folder)).keys())


def table(found: dict[str, Operations], text: dict[str, list[str]]) -> dict[str, Any]:
    """Returns the operations of the first release, and what later ones have more or less than the one before."""
    first, *later = found
    added, removed, attributes = {}, {}, {}
    for before, release in zip(found, later, strict=False):
        old, new = found[before], found[release]
        added[release] = sorted(new.keys() - old.keys())
        removed[release] = sorted(old.keys() - new.keys())
        attributes[release] = sorted(f"{name}.{key}" for name in old.keys() & new for key in new[name] - old[name])
    return {
        "source": SOURCE,
        "releases": {release: RELEASES[release]._asdict() for release in found},
        "text_operations": text,
        "added": added,
        "removed": removed,
        "attributes": attributes,
        "operations": sorted(found[first]),
    }


def main() -> None:
    """Downloads the packages and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=TABLE, help="default: the table of the package")
    args = parser.parse_args()
    found = {}
    for name, release in RELEASES.items():
        found[name] = tensorflow_operations(release.tensorflow)
        print(f"TF Serving {name}: {len(found[name])} operations of TensorFlow", flush=True)
    text = {}
    for version in sorted({release.tensorflow_text for release in RELEASES.values()}):
        text[version] = text_operations(version)
        print(f"tensorflow-text {version}: {len(text[version])} operations", flush=True)
    args.out.write_text(json.dumps(table(found, text), indent=1) + "\n")


if __name__ == "__main__":
    main()
