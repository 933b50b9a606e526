"""SHA-256 of the files of a version, which its model card holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bert_tf.config.files import sha256_of
from bert_tf.export.metadata import MODEL_CARD, WARMUP

# Field of the model card.
FILES = "files"


def file_digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a version by relative path, except that of the model card."""
    return {name.as_posix(): sha256_of(path) for name, path in _files(folder).items() if name != MODEL_CARD}


def check_digests(folder: Path, digests: Mapping[str, str]) -> None:
    """Compares the files of a version with the SHA-256 in its model card.

    Args:
        folder: folder of the version.
        digests: SHA-256 by relative path.

    Raises:
        ValueError: for a file that has changed or is missing, and for one of the model or its warm-up that the card
            does not name.
    """
    present = {name.as_posix(): path for name, path in _files(folder).items()}
    for name, wanted in digests.items():
        if name not in present:
            raise ValueError(f"{folder}: {MODEL_CARD.name} names a file that is not there: {name[:200]!r}")
        if sha256_of(present[name]) != wanted:
            raise ValueError(
                f"{folder / name}: changed since the export; {MODEL_CARD.name} has another SHA-256. Copy the version "
                f"again; if you changed it yourself, remove `{FILES}` from {MODEL_CARD.name}"
            )
    for name in present.keys() - digests.keys():
        if name == WARMUP.as_posix() or not name.startswith(f"{WARMUP.parent.name}/"):
            raise ValueError(f"{folder / name}: added since the export; {MODEL_CARD.name} does not name it. Remove it")


def _files(folder: Path) -> dict[Path, Path]:
    """Returns the regular files of a folder by relative path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path for path in paths}
