"""Checks that paths are local, not URLs."""

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
        >>> local_path("runs/small").name
        'small'
        >>> try:
        ...     local_path("gs://bucket/run")
        ... except bert_tf.ConfigError:
        ...     print("only `vocab` and `data` read URLs")
        only `vocab` and `data` read URLs
    """
    if _URL.match(str(path)):
        raise ConfigError(
            f"{str(path)!r} is a URL, but only `vocab` and `data` support URLs. Use a local path and copy the files "
            "with the tool of the storage provider, for example `gcloud storage cp --recursive`."
        )
    return Path(path)
