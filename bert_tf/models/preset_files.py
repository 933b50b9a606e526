"""Replaces directories through a staging directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from bert_tf.config import ConfigError


def check_replaceable(directory: Path, known: Collection[str], marker: str) -> None:
    """Checks that replacing `directory` does not delete unrelated files.

    Args:
        directory: output directory, which may be missing or empty.
        known: names of the files that the directory may contain.
        marker: name of the file that a non-empty directory must contain.

    Raises:
        ConfigError: if `directory` is a file or contains other files.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfigError(f"{directory}: expected a directory. Received: a file")
    names = {entry.name for entry in directory.iterdir()}
    other = sorted(names - set(known)) if marker in names else sorted(names)
    if other:
        raise ConfigError(
            f"{directory}: must be missing, empty or a preset. Received: a directory that contains {other}"
        )


def replace_directory(directory: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` on a staging directory, then renames it to `directory`.

    If `write` fails, the previous content is unchanged. If the process is killed between the two renames, the previous
    content remains in `set_aside(directory)`; the next call restores it.

    Args:
        directory: directory to replace; parents are created as needed.
        write: function that writes to the directory passed to it.
    """
    directory = directory.resolve()
    staging, aside = directory.with_name(f".{directory.name}.staging"), set_aside(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    if aside.exists():
        if directory.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(directory)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir()
        write(staging)
        if directory.exists():
            directory.rename(aside)
        staging.rename(directory)
    except BaseException:
        if aside.exists() and not directory.exists():
            aside.rename(directory)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def set_aside(directory: Path) -> Path:
    """Returns the path at which `replace_directory` keeps the previous content during the renames."""
    return directory.with_name(f".{directory.name}.previous")
