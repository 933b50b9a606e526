"""Local copies of inputs: presets, vocabularies, task files and versions of exported models."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from bert_tf.config import local_path
from bert_tf.storage.cache import folder_of, locked, name_of, read_journal, write_journal
from bert_tf.storage.stores import Store, StoredFile, is_url

# Directories of a run that nobody reads through its preset, and that are larger than it.
_RUN_STATE = ("checkpoints", "tensorboard")
_STEP = re.compile(r"\d+|latest")
_STAGING = ".staging"

_LOGGER = logging.getLogger(__name__)


def input_path(path: str | Path, use: str = "files") -> Path:
    """Returns a local path as it is, and the local copy of a URL.

    A copy is downloaded beside the previous one and then renamed. Files whose size and tag have not changed in the
    store are not downloaded again.

    Args:
        path: local path; URL of an object, of all objects below a prefix, or of a TensorFlow checkpoint.
        use: `files` for all objects; `preset` for a preset or a run without its checkpoints.

    Returns:
        The local path. For a URL it ends with the last name of the URL.

    Raises:
        FileNotFoundError: if nothing exists at the URL.
        StoreError: if the store refuses or does not answer.

    Example:
        >>> from bert_tf.storage import Store, input_path
        >>> _ = Store("memory://bucket").write("vocab.txt", b"[PAD]")
        >>> input_path("memory://bucket/vocab.txt").read_text()
        '[PAD]'
        >>> input_path("runs/laptop").name
        'laptop'
    """
    if not is_url(path):
        return local_path(path)
    store = Store(str(path))
    folder, name = folder_of("copies", store.url), name_of(store.url)
    with locked(folder):
        _update(store, folder, name, use)
    return folder / name


def copy_path(url: str) -> Path:
    """Returns the path of the local copy of a URL, which need not exist."""
    return folder_of("copies", url) / name_of(url)


def remove_copy(url: str) -> None:
    """Removes the local copy of a URL. `input_path` downloads it again."""
    folder = folder_of("copies", url)
    if folder.is_dir():
        with locked(folder):
            write_journal(folder, {})
            _remove(folder / name_of(url))


def preset_path(name: str | Path) -> str | Path:
    """Returns the name of a preset, with a local copy in place of a URL; `URL@STEP` copies a run with its checkpoints.

    Args:
        name: name of a preset, or the URL of a preset or a run, with or without `@STEP`.

    Returns:
        The local name.

    Raises:
        FileNotFoundError: if nothing exists at the URL.
        StoreError: if the store refuses or does not answer.

    Example:
        >>> from bert_tf.storage import preset_path
        >>> preset_path("hf:runs/other")
        'hf:runs/other'
    """
    if not is_url(name):
        return name
    url, at, step = str(name).rpartition("@")
    if at and _STEP.fullmatch(step):
        return f"{input_path(url)}@{step}"
    return input_path(name, "preset")


def _update(store: Store, folder: Path, name: str, use: str) -> None:
    """Makes the copy in `folder` equal to the store."""
    target = folder / name
    files = store.files()
    if prefixed := {} if files else store.files_with_prefix():
        _copy_prefix(store, folder, prefixed)
        return
    if not files:
        raise FileNotFoundError(f"{store.url} does not exist")
    empty: set[str] = set()
    if "" not in files:
        files, empty = _wanted(files, use)
    tags = {path: [file.size, file.tag] for path, file in files.items()}
    journal = read_journal(folder).get("files", {})
    if tags == journal and all(_has_size(target / path, file.size) for path, file in files.items()):
        return
    _LOGGER.info("downloading %s to %s", store.url, target)
    staging = folder / _STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    if "" in files:
        store.download("", staging / name, files[""])
    for path in files.keys() - {""}:
        fresh, old = staging / name / path, target / path
        if journal.get(path) == tags[path] and _has_size(old, files[path].size):
            fresh.parent.mkdir(parents=True, exist_ok=True)
            os.link(old, fresh)
        else:
            store.download(path, fresh, files[path])
    for directory in empty:
        (staging / name / directory).mkdir(parents=True, exist_ok=True)
    # Without a journal, an interrupted exchange is repeated.
    write_journal(folder, {})
    _remove(target)
    (staging / name).rename(target)
    shutil.rmtree(staging)
    write_journal(folder, {"url": store.url, "files": tags})


def _copy_prefix(store: Store, folder: Path, files: Mapping[str, StoredFile]) -> None:
    """Downloads the files of a TensorFlow checkpoint, whose URL is their common prefix."""
    parent = Store(store.url.rpartition("/")[0])
    tags = {path: [file.size, file.tag] for path, file in files.items()}
    if read_journal(folder).get("files") == tags and all(_has_size(folder / p, f.size) for p, f in files.items()):
        return
    for path, file in files.items():
        parent.download(path, folder / path, file)
    write_journal(folder, {"url": store.url, "files": tags})


def _wanted(files: Mapping[str, StoredFile], use: str) -> tuple[dict[str, StoredFile], set[str]]:
    """Returns the files to copy, and the directories to create without their files."""
    shown = {path: file for path, file in files.items() if not any(part[0] == "." for part in path.split("/"))}
    left_out = {path.partition("/")[0] for path in shown} & set(_RUN_STATE) if use == "preset" else set()
    return {path: file for path, file in shown.items() if path.partition("/")[0] not in left_out}, left_out


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
