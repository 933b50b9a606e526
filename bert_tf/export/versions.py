"""Model directories as TF Serving reads them: `<name>/<integer version>/saved_model.pb`."""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.config import local_path

# What is being written; TF Serving looks at folders named by an integer only.
STAGING_PREFIX = ".staging-"
_VERSION = re.compile(r"[0-9]+")


def versions(model_dir: str | Path) -> list[int]:
    """Returns the versions in `model_dir`, ascending; none where the directory is not there."""
    model_dir = Path(model_dir)
    if not model_dir.is_dir():
        return []
    return sorted(int(entry.name) for entry in model_dir.iterdir() if _is_version(entry))


def latest_version(model_dir: str | Path) -> Path:
    """Returns the folder of the highest version in `model_dir`.

    Raises:
        FileNotFoundError: where there is none.
    """
    model_dir = Path(model_dir)
    found = versions(model_dir)
    if not found:
        raise FileNotFoundError(
            f"{model_dir} holds no exported model: expected a folder named by a version, for example {model_dir / '1'}"
        )
    return model_dir / str(found[-1])


def check_model_dir(model_dir: str | Path) -> None:
    """Refuses a `model_dir` that is something else than a place for versions.

    Raises:
        ValueError: where it is a URL or a file, or holds anything but versions and hidden entries.
    """
    model_dir = local_path(model_dir)
    if not model_dir.exists():
        return
    if not model_dir.is_dir():
        raise ValueError(f"the model directory must be a directory. Received: {model_dir}, a file")
    others = sorted(e.name for e in model_dir.iterdir() if not _is_version(e) and not e.name.startswith("."))
    if others:
        raise ValueError(
            f"{model_dir}: a model directory must hold nothing but versions. Received: {', '.join(others[:5])}"
        )


def _is_version(entry: Path) -> bool:
    return _VERSION.fullmatch(entry.name) is not None and entry.is_dir()
