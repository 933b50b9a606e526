"""The files under a preset: weights by name, and directories replaced whole or not at all."""

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
    """Writes every weight of `model` as one float32 dataset, with checksums, named by the variable's path.

    Unlike Keras' own weight files, a file of this form holds no optimizer, and says of every array whose it is.

    Args:
        model: built.
        path: HDF5 file to create.

    Raises:
        ConfigError: when two weights have the same path, or one holds a number that is not finite.
    """
    paths = [weight.path for weight in model.weights]
    if len(set(paths)) != len(paths):
        repeated = sorted({name for name in paths if paths.count(name) > 1})
        raise ConfigError(f"every weight of a model must have a path of its own. Received twice: {repeated}")
    with h5py.File(path, "w") as file:
        for weight in model.weights:
            array = np.asarray(keras.ops.convert_to_numpy(weight.value), dtype=np.float32)
            check_finite(array, weight.path, "the model")
            file.create_dataset(weight.path, data=array, chunks=array.shape, fletcher32=True)
    _checked_shapes(model, path)


def read_weights(model: keras.Model, path: Path) -> None:
    """Fills `model` from what `write_weights` wrote.

    Raises:
        ConfigError: when the file cannot be read, refers to another one, or holds other names or shapes than the model,
            or a number that is not finite.
    """
    _checked_shapes(model, path)
    for weight in model.weights:
        array = read_array(path, weight.path)
        check_finite(array, weight.path, path)
        weight.assign(array)


def check_finite(array: np.ndarray, name: str, source: object) -> None:
    """Raises ConfigError, naming the weight and its source, where an array holds NaN or infinity."""
    finite = np.isfinite(array)
    if not finite.all():
        raise ConfigError(
            f"{source}: weight `{name}` must hold finite numbers. "
            f"Received: NaN or infinity in {array.size - int(finite.sum())} of {array.size} places"
        )


def check_replaceable(directory: Path, known: Collection[str], marker: str) -> None:
    """Makes sure that replacing `directory` loses nothing else.

    Args:
        directory: may be missing or empty.
        known: names of files that may be there.
        marker: the one that must be there.

    Raises:
        ConfigError: when `directory` is a file, or holds other files.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfigError(f"{directory}: expected a directory. Received: a file")
    found = {entry.name for entry in directory.iterdir()}
    other = sorted(found - set(known)) if marker in found else sorted(found)
    if other:
        raise ConfigError(
            f"{directory}: must be missing, empty or a preset to be written. Received: it also holds {other}"
        )


def replace_directory(directory: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` on a new directory beside `directory`, then puts it in its place.

    When `write` fails, what stood there stands there still. A process killed between the two renames
    leaves the former content in `set_aside(directory)`, from where the next call takes it back.

    Args:
        directory: parents are made as needed.
        write: fills the directory it is given.
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
    """Returns where `replace_directory` keeps the former content while it renames."""
    return directory.with_name(f".{directory.name}.previous")


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every weight of a file by its path.

    Raises:
        ConfigError: where the file cannot be read, refers to another one, or holds anything but float32.
    """
    arrays = stored_arrays(path)
    for name, array in arrays.items():
        if array.dtype != "float32":
            raise ConfigError(f"{path}: weight `{name}` must be float32. Received: {array.dtype}")
    return {name: array.shape for name, array in arrays.items()}


def _checked_shapes(model: keras.Model, path: Path) -> None:
    expected = {weight.path: tuple(weight.shape) for weight in model.weights}
    found = stored_shapes(path)
    for name, shape in expected.items():
        if name not in found:
            raise ConfigError(f"{path}: does not fit the model: weight `{name}` {shape} is missing.")
        if found[name] != shape:
            raise ConfigError(
                f"{path}: does not fit the model: weight `{name}` must have shape {shape}. Received: {found[name]}"
            )
    unknown = sorted(set(found) - set(expected))
    if unknown:
        raise ConfigError(f"{path}: does not fit the model: it has no weight `{unknown[0]}`.")
