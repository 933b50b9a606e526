"""Paths of the local file system, told apart from URLs."""

from __future__ import annotations

import re
from pathlib import Path

from bert_tf.config.base import ConfigError

# `Path` has made one slash of two; a single letter is a drive of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_path(path: str | Path) -> Path:
    """Returns a path of the local file system.

    Args:
        path: of a file or directory, there or not.

    Raises:
        ConfigError: for a URL, such as `gs://bucket/run`, which would be taken for a local folder `gs:`.
    """
    if _URL.match(str(path)):
        raise ConfigError(
            f"{str(path)!r} is a URL, and only `vocab` and `data` read and write URLs. Use a local path, and copy "
            "files from or to the store with its own tool, for example `gcloud storage cp --recursive`."
        )
    return Path(path)
