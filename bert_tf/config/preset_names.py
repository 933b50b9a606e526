"""Names of presets on the command line and in `from_preset`, resolved without Keras and without TensorFlow.

| name | preset |
|---|---|
| `DIRECTORY` | a preset, the preset of a run, or a checkpoint of another program |
| `hf:DIRECTORY` | a directory of Hugging Face transformers |
| `RUN@STEP`, `RUN@latest` | a checkpoint of the run in the directory `RUN` |
| `RUN/checkpoints/step-00001000` | the same checkpoint, by its path |
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from bert_tf.config.base import read_json_object
from bert_tf.config.errors import ConfigError
from bert_tf.config.paths import local_path

CONFIG_NAME = "config.json"
# In a run's output directory.
RUN_PRESET_NAME = "preset"
CHECKPOINTS_NAME = "checkpoints"
# In the directory of a checkpoint.
STATE_NAME = "state.json"
HUGGINGFACE_PREFIX = "hf:"
LATEST = "latest"
# Kinds of `preset_kind` that other programs write. TensorFlow checkpoints are `google_tf1` or `model_garden`.
FOREIGN = ("huggingface", "keras_hub", "tensorflow")

_STEP_NAME = re.compile(r"step-(\d{8,})")
_AT_STEP = re.compile(rf"(.+)@(\d+|{LATEST})")
_HUGGINGFACE_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "model.safetensors.index.json")


def checkpoint_name(step: int) -> str:
    """Returns the name of the directory of a checkpoint."""
    return f"step-{step:08d}"


def checkpoint_steps(directory: Path) -> list[int]:
    """Returns the steps of all checkpoints in a directory, oldest first."""
    names = (_STEP_NAME.fullmatch(path.name) for path in directory.glob("step-*"))
    return sorted(int(name[1]) for name in names if name)


def preset_directory(name: str | Path) -> Path:
    """Returns the path that a name of a preset stands for.

    Args:
        name: see the table of this module.

    Returns:
        The directory, the directory of a checkpoint for `RUN@STEP`, and `RUN/preset` for a run that has a preset. The
        path may be missing.

    Raises:
        ConfigError: for a URL, and for a step without a checkpoint.

    Example:
        >>> from bert_tf.config.preset_names import preset_directory
        >>> preset_directory("hf:runs/other").as_posix()
        'runs/other'
    """
    path = local_path(str(name).removeprefix(HUGGINGFACE_PREFIX))
    if not path.exists() and (match := _AT_STEP.fullmatch(str(path))):
        return _checkpoint(Path(match[1]), match[2])
    run_preset = path / RUN_PRESET_NAME
    return run_preset if (run_preset / CONFIG_NAME).is_file() and not (path / CONFIG_NAME).is_file() else path


def find_preset(name: str | Path) -> tuple[Path, str]:
    """Returns the path of `preset_directory`, and its kind of `preset_kind`.

    Raises:
        ConfigError: as `preset_directory` does, and for `hf:DIRECTORY` with files of another program.
    """
    path = preset_directory(name)
    kind = preset_kind(path)
    if str(name).startswith(HUGGINGFACE_PREFIX) and path.exists() and kind != "huggingface":
        raise ConfigError(
            f"{HUGGINGFACE_PREFIX}DIRECTORY must be a directory of transformers, with config.json and weights. "
            f"Received: {path}, {kind or 'another directory'}. Leave out `{HUGGINGFACE_PREFIX}` for other formats."
        )
    return path, kind


def preset_kind(path: Path) -> str:
    """Returns the kind of a preset by the names of its files and the keys of its config.json.

    Args:
        path: path from `preset_directory`.

    Returns:
        `checkpoint` for that of a run, `preset`, one of `FOREIGN`, or "" for anything else.
    """
    config = read_object(path / CONFIG_NAME)
    rules = {
        "checkpoint": (path / STATE_NAME).is_file(),
        "preset": "format_version" in config,
        "huggingface": "model_type" in config or any((path / name).is_file() for name in _HUGGINGFACE_WEIGHTS),
        "keras_hub": {"class_name", "config"} <= config.keys(),
        # Other files called config.json, for example damaged ones, are reported by the code that reads presets.
        "": (path / CONFIG_NAME).is_file(),
        "tensorflow": _is_tensorflow(path),
    }
    return next((kind for kind, holds in rules.items() if holds), "")


def read_object(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if the file is missing or holds anything else."""
    with contextlib.suppress(ConfigError):
        return read_json_object(path)
    return {}


def _checkpoint(run: Path, step: str) -> Path:
    folder = run / CHECKPOINTS_NAME
    steps = checkpoint_steps(folder)
    if not steps:
        raise ConfigError(f"{run}@{step}: {run} must be the output directory of a run. Received: no checkpoints")
    if step != LATEST and int(step) not in steps:
        raise ConfigError(
            f"{run}@{step}: the step must be one with a checkpoint: {', '.join(map(str, steps))}. Received: {step}. "
            "Set `training.keep_every` to keep more of them."
        )
    return folder / checkpoint_name(steps[-1] if step == LATEST else int(step))


def _is_tensorflow(path: Path) -> bool:
    """Returns True for a directory of a TensorFlow checkpoint, and for its prefix or one of its files."""
    if path.is_dir():
        return (path / "bert_config.json").is_file() or any(path.glob("*.index"))
    if path.suffix == ".index" or path.with_name(f"{path.name}.index").is_file():
        return True
    return path.is_file() and (path.parent / "bert_config.json").is_file()
