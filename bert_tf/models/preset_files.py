"""Preset files: weights by name, and replacement of directories through a staging directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import h5py
import keras
import numpy as np

from bert_tf.config import ConfigError
from bert_tf.models.weight_file import read_array, stored_arrays


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
    with h5py.File(path, "w") as file:
        for weight in model.weights:
            array = np.asarray(keras.ops.convert_to_numpy(weight.value), dtype=np.float32)
            check_finite(array, weight.path, "the model")
            file.create_dataset(weight.path, data=array, chunks=array.shape, fletcher32=True)
    _check_shapes(model, path)


def read_weights(model: keras.Model, path: Path) -> None:
    """Loads weights written by `write_weights` into `model`.

    Args:
        model: built model.
        path: HDF5 file.

    Raises:
        ConfigError: if the file cannot be read or refers to another file, if names or shapes do not match the model, or
            if a weight contains NaN or infinity.
    """
    _check_shapes(model, path)
    for weight in model.weights:
        array = read_array(path, weight.path)
        check_finite(array, weight.path, path)
        weight.assign(array)


def check_finite(array: np.ndarray, name: str, source: object) -> None:
    """Raises ConfigError with the names of weight and source if `array` contains NaN or infinity."""
    finite = np.isfinite(array)
    if not finite.all():
        raise ConfigError(
            f"{source}: weight `{name}` must hold finite numbers. "
            f"Received: NaN or infinity in {array.size - int(finite.sum())} of {array.size} elements"
        )


def check_replaceable(directory: Path, known: Collection[str], marker: str) -> None:
    """Checks that replacing `directory` does not delete unrelated files.

    Args:
        directory: output directory, which may be missing or empty.
        known: names of the files that the directory may contain.
        marker: name of the file that a non-empty directory must contain.

    Raises:
        ConfigError: if `directory` is a file or contains other files.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfigError(f"{directory}: expected a directory. Received: a file")
    names = {entry.name for entry in directory.iterdir()}
    other = sorted(names - set(known)) if marker in names else sorted(names)
    if other:
        raise ConfigError(
            f"{directory}: must be missing, empty or a preset. Received: a directory that contains {other}"
        )


def replace_directory(directory: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` on a staging directory, then renames it to `directory`.

    If `write` fails, the previous content is unchanged. If the process is killed between the two renames, the previous
    content remains in `set_aside(directory)`; the next call restores it.

    Args:
        directory: directory to replace; parents are created as needed.
        write: function that writes to the directory passed to it.
    """
    directory = directory.resolve()
    staging, aside = directory.with_name(f".{directory.name}.staging"), set_aside(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    if aside.exists():
        if directory.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(directory)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir()
        write(staging)
        if directory.exists():
            directory.rename(aside)
        staging.rename(directory)
    except BaseException:
        if aside.exists() and not directory.exists():
            aside.rename(directory)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def set_aside(directory: Path) -> Path:
    """Returns the path at which `replace_directory` keeps the previous content during the renames."""
    return directory.with_name(f".{directory.name}.previous")


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


def _check_shapes(model: keras.Model, path: Path) -> None:
    expected = {weight.path: tuple(weight.shape) for weight in model.weights}
    shapes = stored_shapes(path)
    for name, shape in expected.items():
        if name not in shapes:
            raise ConfigError(f"{path}: does not match the model: weight `{name}` {shape} is missing.")
        if shapes[name] != shape:
            raise ConfigError(
                f"{path}: does not match the model: weight `{name}` must have shape {shape}. Received: {shapes[name]}"
            )
    unknown = sorted(set(shapes) - set(expected))
    if unknown:
        raise ConfigError(f"{path}: does not match the model, which has no weight `{unknown[0]}`.")
