"""Checks of paths: local paths, not URLs, and existing files."""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.config.errors import ConfigError

# `Path` collapses the two slashes of a URL; a single letter is a Windows drive.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str | Path) -> Path:
    """Converts `path` to a `Path` on the local file system.

    Args:
        path: path of a file or directory, which need not exist.

    Returns:
        The path.

    Raises:
        ConfigError: for a URL such as `gs://bucket/run`, which `Path` would treat as a local folder `gs:`.

    Example:
        >>> from bert_tf.config import local_path
        >>> local_path("runs/laptop").name
        'laptop'
        >>> try:
        ...     local_path("gs://bucket/run")
        ... except bert_tf.ConfigError:
        ...     print("a URL")
        a URL
    """
    if _URL.match(str(path)):
        raise ConfigError(
            f"{str(path)!r} is a URL, which is not supported here. Use a local path: `bert_tf.storage.input_path` "
            "copies an input to this machine, and `bert_tf.storage.working_copy` uploads an output."
        )
    return Path(path)


def existing(path: Path, name: str) -> Path:
    """Returns `path` if it exists.

    Args:
        path: the path to check.
        name: name of the argument in the error message.

    Raises:
        FileNotFoundError: if `path` does not exist.

    Example:
        >>> from pathlib import Path
        >>> from bert_tf.config import existing
        >>> existing(Path("vocab.txt"), "--vocabulary").name
        'vocab.txt'
    """
    if not path.exists():
        raise FileNotFoundError(f"{name} {str(path)!r} does not exist")
    return path
