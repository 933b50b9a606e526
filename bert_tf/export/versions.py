"""Model directories in TF Serving's layout: `<name>/<integer version>/saved_model.pb`."""

from __future__ import annotations

import re
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
    folders = [entry for entry in Path(model_dir).iterdir() if _is_version(entry)]
    by_version: dict[int, list[Path]] = {}
    for folder in sorted(folders, key=lambda folder: (int(folder.name), len(folder.name))):
        by_version.setdefault(int(folder.name), []).append(folder)
    return by_version


def latest_version(model_dir: str | Path) -> Path:
    """Returns the folder of the highest version in `model_dir`. Raises FileNotFoundError without versions."""
    model_dir = Path(model_dir)
    folders = version_folders(model_dir) if model_dir.is_dir() else {}
    if not folders:
        raise FileNotFoundError(
            f"{model_dir} holds no exported model: expected a folder named by a version, for example "
            f"{model_dir / '1'}. Run `bert-tf export` first."
        )
    return folders[max(folders)][0]


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
    return _VERSION.fullmatch(entry.name) is not None and int(entry.name) <= _MAX_VERSION and entry.is_dir()
