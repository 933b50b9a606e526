"""Fingerprints of the inputs of runs: files, presets and data directories, by their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.config.files import sha256_of
from bert_tf.config.preset_names import find_preset
from bert_tf.data.manifest import MANIFEST_NAME, data_directories


def fingerprint(path: str | Path) -> str:
    """Returns a SHA-256 of the contents of an input, wherever it lies.

    Args:
        path: a preset by any of its names (see `config.preset_names`), a data directory, or a file. The manifest stands
            for a data directory, as it has the checksums of the shards.

    Returns:
        The hexadecimal digest.

    Raises:
        ConfigError: for any other path.

    Example:
        >>> from bert_tf.experiments.fingerprints import fingerprint
        >>> len(fingerprint("runs/laptop"))
        64
    """
    directory, kind = find_preset(path)
    if kind and directory.is_dir():
        return _digest(directory, (file for file in directory.iterdir() if file.is_file() and file.name[0] != "."))
    if kind:
        # A TensorFlow checkpoint by its prefix, or by one of its files.
        prefix = directory.name.removesuffix(".index")
        return _digest(directory.parent, directory.parent.glob(f"{prefix}.*"))
    path = Path(path)
    if path.is_file():
        return sha256_of(path)
    folders = data_directories(path) if path.is_dir() else []
    if not folders:
        raise ConfigError(f"an input must be a file, a preset or a data directory. Received: {path}")
    return _digest(path, (folder / MANIFEST_NAME for folder in folders))


def _digest(directory: Path, files: Iterable[Path]) -> str:
    """Returns the SHA-256 of the relative names and the contents of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(directory).as_posix()}\t{sha256_of(file)}\n".encode())
    return digest.hexdigest()
