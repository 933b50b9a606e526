"""Checks of the paths on the command line, before TensorFlow is imported; errors name the command to run next.

A path is recognised by the names of its files, and by the keys of its config.json.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, existing
from bert_tf.config.base import read_json_object
from bert_tf.config.errors import did_you_mean
from bert_tf.data.manifest import check_vocabulary, data_directories, read_manifest
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.export.versions import latest_version, version_folders
from bert_tf.text.vocabulary import load_vocabulary

_CONVERT = "Run `bert-tf convert --source {form} {path} --target preset NEW` first, then use NEW."
_OTHER_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "model.safetensors.index.json")
# A name of the Hugging Face hub: `bert-base-uncased`, `owner/name`, or `hf:` before it.
_HUB_NAME = re.compile(r"(hf:)?([\w.-]+/)?[\w.-]*bert[\w.-]*", re.IGNORECASE)
_MODEL_CARD = Path("assets.extra") / "model_card.json"


def check_path(path: Path, name: str) -> None:
    """Checks that a path exists.

    Args:
        path: the path.
        name: name of the argument.

    Raises:
        FileNotFoundError: if it does not exist; suggests a similar name in the same directory.
    """
    try:
        existing(path, name)
    except FileNotFoundError as error:
        folder = path.parent
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        raise FileNotFoundError(f"{error}{did_you_mean(path.name, names)}") from error


def check_preset(path: Path, name: str = "--preset") -> None:
    """Checks that a path is a preset, or a run that has one.

    Args:
        path: the path.
        name: name of the argument.

    Raises:
        FileNotFoundError: if the path does not exist.
        ConfigError: for anything else, such as a SavedModel or a checkpoint of another program.
    """
    try:
        check_path(path, name)
    except FileNotFoundError as error:
        if _HUB_NAME.fullmatch(str(path)) and "did you mean" not in str(error):
            hint = f"Models of a hub are not downloaded. Download the files to a directory DIR. {_CONVERT}"
            raise FileNotFoundError(f"{error}. {hint.format(form='huggingface', path='DIR')}") from error
        raise FileNotFoundError(
            f"{error}. Pre-train a model with `bert-tf pretrain`, or convert one with `bert-tf convert`."
        ) from error
    if hint := _not_a_preset(path):
        raise ConfigError(f"{name} must be a preset, or the output directory of a run. Received: {path}, {hint}")


def _not_a_preset(path: Path) -> str:
    """Returns the kind of a path that is not a preset, and the next step; empty for a preset or an unknown kind."""
    kind = kind_of(path)
    if kind in ("huggingface", "keras_hub"):
        return f"a checkpoint of the format {kind}. {_CONVERT.format(form=kind, path=path)}"
    if kind in ("saved_model", "model_directory"):
        folder = path if kind == "saved_model" else latest_version(path)
        source = _read_json(folder / _MODEL_CARD).get("source_preset")
        return f"a SavedModel. Use the preset that it was exported from{f', {source}' if source else ''}."
    if kind == "data":
        return f"a data directory. Run `bert-tf pretrain --data {path} --output RUN` first, then use RUN."
    if kind == "unfinished_run":
        return "a run that has not finished. Run the same command again to resume it."
    if kind == "file":
        return "a file. Use the directory of a preset, or convert a checkpoint with `bert-tf convert`."
    if kind == "checkpoint":
        step = _CONVERT.format(form="FORM", path=path)
        return f"a TensorFlow checkpoint. `bert-tf inspect {path}` names its FORM. {step}"
    # After an interrupted save, the code that reads presets names the directory of the previous one.
    asides = (path.resolve().with_name(f".{path.resolve().name}.previous"), path / ".preset.previous")
    if kind == "" and not any(aside.is_dir() for aside in asides):
        return "a directory without a config.json. Use the output directory of `pretrain`, `finetune` or `convert`."
    return ""


def check_data(path: Path, name: str = "--data") -> None:
    """Checks that a path is a data directory, with one length or several.

    Args:
        path: the path.
        name: name of the argument.

    Raises:
        FileNotFoundError: if the path does not exist.
        ConfigError: for anything else.
    """
    check_path(path, name)
    kind = kind_of(path)
    make = "Run `bert-tf data --input {input} --vocabulary vocab.txt --output DIR` first, then use DIR."
    hints = {
        "file": f"a file. {make.format(input=path)}",
        "preset": "a preset. Use the directory that `bert-tf data` wrote.",
    }
    directories = [] if kind == "file" else data_directories(path)
    if kind in hints and not directories:
        raise ConfigError(f"{name} must be the output directory of `bert-tf data`. Received: {path}, {hints[kind]}")
    for folder in directories or [path]:
        read_manifest(folder)


def check_model_directory(path: Path, name: str) -> None:
    """Checks that a path holds exported versions of a model.

    Args:
        path: the path.
        name: name of the argument.

    Raises:
        FileNotFoundError: if the path does not exist.
        ConfigError: for a preset, a checkpoint, or a version instead of its parent.
    """
    check_path(path, name)
    kind = kind_of(path)
    hints = {
        "preset": f"a preset. Run `bert-tf export --preset {path} --output saved_models/NAME` first, then use "
        "saved_models/NAME.",
        "saved_model": f"a version of a model. Use its parent, {path.resolve().parent}.",
        "huggingface": f"a checkpoint of the format huggingface. {_CONVERT.format(form='huggingface', path=path)} "
        "Export the preset with `bert-tf export`.",
    }
    if kind in hints:
        raise ConfigError(f"{name} must be the output directory of `bert-tf export`. Received: {path}, {hints[kind]}")


def check_same_vocabulary(preset: Path, data: Path) -> None:
    """Raises ValueError if a preset has another vocabulary than a data directory."""
    path = _preset_folder(preset) / VOCABULARY_NAME
    for folder in data_directories(data) if path.is_file() else ():
        try:
            check_vocabulary(read_manifest(folder), load_vocabulary(path))
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error


def check_batch_size(value: int) -> None:
    """Raises ConfigError for a `--batch_size` below 1."""
    if value < 1:
        raise ConfigError(f"`--batch_size` must be at least 1. Received: {value}")


def check_length(length: int | None, preset: Path) -> None:
    """Checks `--max_sequence_length` with the number of positions of a preset.

    Args:
        length: value of the flag; None for the default.
        preset: path of the preset or of a run.

    Raises:
        ConfigError: if the length is not positive, or greater than the number of positions.
    """
    if length is None:
        return
    if length < 1:
        raise ConfigError(f"`--max_sequence_length` must be at least 1. Received: {length}")
    positions = _positions(preset)
    if positions is not None and length > positions:
        raise ConfigError(
            f"`--max_sequence_length` must not exceed the model's {positions} positions. Received: {length}. Use "
            f"a smaller value, or pre-train further with `bert-tf pretrain --init {preset} "
            f"--set model.max_sequence_length={length}`."
        )


def has_task(preset: Path) -> bool:
    """Returns True if a preset, or the preset of a run, has a task."""
    return (_preset_folder(preset) / "task.json").is_file()


def kind_of(path: Path) -> str:
    """Returns the kind of a file or directory.

    Args:
        path: existing path.

    Returns:
        `data`, `preset` (also a run with a preset), `unfinished_run`, `huggingface`, `keras_hub`, `checkpoint`,
        `saved_model`, `model_directory`, `file`, or "" for another directory.
    """
    if path.is_file():
        return "file"
    config = _read_json(path / "config.json")
    rules = {
        "preset": "format_version" in config or (path / "preset" / "config.json").is_file(),
        "saved_model": (path / "saved_model.pb").is_file(),
        "huggingface": "model_type" in config or any((path / name).is_file() for name in _OTHER_WEIGHTS),
        "keras_hub": {"class_name", "config"} <= config.keys(),
        # Other files called config.json, for example damaged ones, are reported by the code that reads presets.
        "unknown": (path / "config.json").is_file(),
        "data": (path / "manifest.json").is_file() or any(path.glob("length-*/manifest.json")),
        "unfinished_run": (path / "checkpoints").is_dir(),
        "model_directory": any((folders[0] / "saved_model.pb").is_file() for folders in version_folders(path).values()),
        "checkpoint": any(path.glob("*.index")),
    }
    return next((kind for kind, holds in rules.items() if holds), "")


def _preset_folder(path: Path) -> Path:
    """Returns the directory of a preset, or of a run's preset."""
    return path if (path / "config.json").is_file() else path / "preset"


def _positions(preset: Path) -> int | None:
    """Returns the number of positions of a preset; None if its config.json does not define it."""
    nodes = [_read_json(_preset_folder(preset) / "config.json")]
    while nodes:
        node = nodes.pop()
        if type(node.get("max_sequence_length")) is int:
            return node["max_sequence_length"]
        nodes += [child for child in node.values() if isinstance(child, dict)]
    return None


def _read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if the file is missing or holds anything else."""
    with contextlib.suppress(ConfigError):
        return read_json_object(path)
    return {}
