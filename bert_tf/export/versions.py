"""Model directories in TF Serving's layout: `<name>/<integer version>/saved_model.pb`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bert_tf.config import local_path

# Prefix of a version that is being written; TF Serving reads only folders named by an integer.
STAGING_PREFIX = ".staging-"
_VERSION = re.compile(r"[0-9]+")
# TF Serving stores version numbers as int64 (tensorflow_serving/apis/model.proto).
_MAX_VERSION = 2**63 - 1


def version_folders(model_dir: str | Path) -> dict[int, list[Path]]:
    """Returns the folders of each version in `saved_models/<name>`, ascending by version.

    Numbers may have leading zeros. If several folders have the same number, for example `6` and `006`, the first of the
    list is the version: the one with the fewest zeros. Raises OSError if the directory cannot be read.
    """
    folders = {entry.name: entry for entry in Path(model_dir).iterdir() if _is_version(entry)}
    return {number: [folders[name] for name in names] for number, names in version_names(folders).items()}


def version_names(names: Iterable[str]) -> dict[int, list[str]]:
    """Returns the names of each version, ascending by version, as `version_folders` returns their folders."""
    by_version: dict[int, list[str]] = {}
    for name in sorted(filter(_is_version_name, names), key=lambda name: (int(name), len(name))):
        by_version.setdefault(int(name), []).append(name)
    return by_version


def latest_version(model_dir: str | Path) -> Path:
    """Returns the folder of the highest version in `model_dir`. Raises FileNotFoundError without versions."""
    model_dir = Path(model_dir)
    folders = version_folders(model_dir) if model_dir.is_dir() else {}
    if not folders:
        raise no_version(str(model_dir))
    return folders[max(folders)][0]


def no_version(model_dir: str) -> FileNotFoundError:
    """Returns the error for a path or URL without versions."""
    return FileNotFoundError(
        f"{model_dir} holds no exported model: expected a folder named by a version, for example {model_dir}/1. Run "
        "`bert-tf export` first."
    )


def check_model_dir(model_dir: str | Path) -> None:
    """Raises ValueError if `model_dir` is a URL or a file, or contains anything but versions and hidden files."""
    model_dir = local_path(model_dir)
    if not model_dir.exists():
        return
    if not model_dir.is_dir():
        raise ValueError(f"the model directory must be a directory. Received: {model_dir}, a file")
    unexpected = sorted(e.name for e in model_dir.iterdir() if not _is_version(e) and not e.name.startswith("."))
    if unexpected:
        raise ValueError(
            f"{model_dir}: a model directory must contain only versions. Received: {', '.join(unexpected[:5])}"
        )


def _is_version(entry: Path) -> bool:
    return _is_version_name(entry.name) and entry.is_dir()


def _is_version_name(name: str) -> bool:
    return _VERSION.fullmatch(name) is not None and int(name) <= _MAX_VERSION
