"""Checks of the paths on the command line, before TensorFlow is imported; errors name the command to run next.

A path is recognised by the names of its files, and by the keys of its config.json.
"""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.config import ConfigError, existing
from bert_tf.config.errors import did_you_mean
from bert_tf.config.preset_names import (
    CHECKPOINTS_NAME,
    CONFIG_NAME,
    FOREIGN,
    RUN_PRESET_NAME,
    checkpoint_steps,
    find_preset,
    preset_directory,
    read_object,
)
from bert_tf.data.manifest import check_vocabulary, data_directories, read_manifest
from bert_tf.data.schema import VOCABULARY_NAME
from bert_tf.export.versions import latest_version, version_folders
from bert_tf.storage import Store
from bert_tf.text.vocabulary import load_vocabulary

# A name of the Hugging Face hub: `bert-base-uncased`, `owner/name`, or `hf:` before it.
_HUB_NAME = re.compile(r"(hf:)?([\w.-]+/)?[\w.-]*bert[\w.-]*", re.IGNORECASE)
# Configurations of presets and of other programs, and their keys of the number of positions.
_CONFIG_NAMES = (CONFIG_NAME, "bert_config.json")
_POSITIONS = ("max_sequence_length", "max_position_embeddings")
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
    """Checks that a path is a preset; see `config.preset_names`.

    Args:
        path: the path.
        name: name of the argument.

    Raises:
        FileNotFoundError: if the path does not exist.
        ConfigError: for anything else, such as a SavedModel, or a step without a checkpoint.
    """
    directory, kind = find_preset(path)
    if kind:
        return
    try:
        check_path(directory, name)
    except FileNotFoundError as error:
        if _HUB_NAME.fullmatch(str(path)) and "did you mean" not in str(error):
            hint = "Models of a hub are not downloaded. Download the files to a directory DIR, then use hf:DIR."
            raise FileNotFoundError(f"{error}. {hint}") from error
        raise FileNotFoundError(
            f"{error}. Pre-train a model with `bert-tf pretrain`, or convert one with `bert-tf convert`."
        ) from error
    if hint := _not_a_preset(directory):
        raise ConfigError(f"{name} must be a preset, or the output directory of a run. Received: {directory}, {hint}")


def _not_a_preset(path: Path) -> str:
    """Returns the kind of a path that is not a preset, and the next step; empty for a preset or an unknown kind."""
    kind = kind_of(path)
    if kind in ("saved_model", "model_directory"):
        folder = path if kind == "saved_model" else latest_version(path)
        source = read_object(folder / _MODEL_CARD).get("source_preset")
        return f"a SavedModel. Use the preset that it was exported from{f', {source}' if source else ''}."
    if kind == "data":
        return f"a data directory. Run `bert-tf pretrain --data {path} --output RUN` first, then use RUN."
    if kind == "unfinished_run":
        steps = checkpoint_steps(path / CHECKPOINTS_NAME)
        use = f", or use one of its checkpoints, {', '.join(f'{path}@{step}' for step in steps)}" if steps else ""
        return f"a run that has not finished. Run the same command again to resume it{use}."
    if kind == "file":
        return "a file. Use the directory of a preset, or convert a checkpoint with `bert-tf convert`."
    if steps := checkpoint_steps(path):
        return f"the checkpoints of a run. Use one of them, {', '.join(f'{path.parent}@{step}' for step in steps)}."
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
    export = f"Run `bert-tf export --preset {path} --output saved_models/NAME` first, then use saved_models/NAME."
    hints = {
        "preset": f"a preset. {export}",
        "saved_model": f"a version of a model. Use its parent, {path.resolve().parent}.",
    }
    hints |= {form: f"a checkpoint of the format {form}. {export}" for form in FOREIGN}
    if kind in hints:
        raise ConfigError(f"{name} must be the output directory of `bert-tf export`. Received: {path}, {hints[kind]}")


def check_stored_model(url: str, name: str) -> None:
    """Checks that a URL holds exported versions of a model.

    Args:
        url: the URL.
        name: name of the argument.

    Raises:
        FileNotFoundError: if nothing exists at the URL.
        ConfigError: for a preset, or a version instead of its parent.
        StoreError: if the store refuses or does not answer.
    """
    files = Store(url).files()
    if not files:
        raise FileNotFoundError(f"{name} {url} does not exist")
    hint = ""
    if "saved_model.pb" in files:
        hint = f"a version of a model. Use its parent, {url.rpartition('/')[0]}."
    elif CONFIG_NAME in files or f"{RUN_PRESET_NAME}/{CONFIG_NAME}" in files:
        hint = f"a preset. Run `bert-tf export --preset {url} --output URL/NAME` first, then use URL/NAME."
    if hint:
        raise ConfigError(f"{name} must be the output directory of `bert-tf export`. Received: {url}, {hint}")


def check_same_vocabulary(preset: Path, data: Path) -> None:
    """Raises ValueError if a preset has another vocabulary than a data directory."""
    folder, kind = find_preset(preset)
    path = folder / VOCABULARY_NAME
    # Other programs' vocabularies may be padded when they are read.
    for folder in data_directories(data) if path.is_file() and kind not in FOREIGN else ():
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
    """Returns True if a preset has a task; also for checkpoints of other programs, whose heads are read later."""
    directory, kind = find_preset(preset)
    return kind in FOREIGN or (directory / "task.json").is_file()


def kind_of(path: Path) -> str:
    """Returns the kind of a file or directory.

    Args:
        path: existing path.

    Returns:
        `data`, `preset` (also a run with a preset), `checkpoint`, `huggingface`, `keras_hub`, `tensorflow`,
        `unfinished_run`, `saved_model`, `model_directory`, `file`, or "" for another directory.
    """
    if path.is_file():
        return "file"
    directory, kind = find_preset(path)
    rules = {
        # A run stands for its preset.
        "preset": kind == "preset" or directory != path,
        "saved_model": (path / "saved_model.pb").is_file(),
        **{name: kind == name for name in ("checkpoint", *FOREIGN)},
        # Other files called config.json, for example damaged ones, are reported by the code that reads presets.
        "unknown": (path / CONFIG_NAME).is_file(),
        "data": (path / "manifest.json").is_file() or any(path.glob("length-*/manifest.json")),
        "unfinished_run": (path / CHECKPOINTS_NAME).is_dir(),
        "model_directory": any((folders[0] / "saved_model.pb").is_file() for folders in version_folders(path).values()),
    }
    return next((name for name, holds in rules.items() if holds), "")


def _positions(preset: Path) -> int | None:
    """Returns the number of positions of a preset; None if its configuration does not define it."""
    path = preset_directory(preset)
    folder = path if path.is_dir() else path.parent
    nodes = [read_object(folder / name) for name in _CONFIG_NAMES]
    while nodes:
        node = nodes.pop()
        for name in _POSITIONS:
            if type(node.get(name)) is int:
                return node[name]
        # `info` has the length of the training data under the same name.
        nodes += [child for key, child in node.items() if isinstance(child, dict) and key != "info"]
    return None
