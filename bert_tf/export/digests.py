"""SHA-256 of the files of a version, which its model card holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bert_tf.config.files import sha256_of
from bert_tf.export.metadata import MODEL_CARD

# Field of the model card.
FILES = "files"


def file_digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a version by relative path, except that of the model card."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder) for path in paths]
    return {name.as_posix(): sha256_of(folder / name) for name in names if name != MODEL_CARD}


def check_digests(folder: Path, digests: Mapping[str, str]) -> None:
    """Raises ValueError for the first file of a version that has another SHA-256 than its model card says."""
    for name, wanted in digests.items():
        try:
            found = sha256_of(folder / name)
        except OSError as error:
            raise ValueError(f"{folder / name}: cannot be read, but {MODEL_CARD.name} names it: {error}") from error
        if found != wanted:
            raise ValueError(
                f"{folder / name}: changed since the export: its SHA-256 in {MODEL_CARD.name} is {wanted}. Received: "
                f"{found}. Copy the version again; if you changed it yourself, remove `{FILES}` from {MODEL_CARD.name}"
            )
