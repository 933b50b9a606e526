"""Verifies the checksums of data once per data directory and reports damaged records."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bert_tf.config.data import VERIFY
from bert_tf.config.files import write_file
from bert_tf.data.manifest import Manifest, data_directories, read_manifest, verify_shard
from bert_tf.data.schema import VERIFIED_NAME
from bert_tf.data.tfrecord.shards import ShardInfo, find_damage
from bert_tf.entry.errors import is_tensorflow_error
from bert_tf.storage.mirrors import Mirror, is_mirror

logger = logging.getLogger(__name__)
_NEXT_STEP = "Run `bert-tf data` again, or copy this file again."


@contextlib.contextmanager
def verified_data(path: str | Path, verify: str = "once") -> Iterator[None]:
    """Verifies checksums before the block runs, and locates the damaged record if the block fails to read one.

    `path` is a data directory, or the output of `bert-tf data` with several lengths. Raises ValueError if a shard does
    not match its manifest, or the block fails on a damaged record; names the shard and, if the framing of a record is
    damaged, the record and its offset.
    """
    manifests = {folder: read_manifest(folder) for folder in data_directories(path) or [Path(path)]}
    for folder, manifest in manifests.items():
        verify_data(folder, manifest, verify)
    try:
        yield
    except Exception as error:
        if is_tensorflow_error(error, "DataLossError"):
            # The error names the offset but not the file.
            for folder, manifest in manifests.items():
                if damage := _first_damage(folder, manifest):
                    raise ValueError(f"{damage}. {_NEXT_STEP}") from error
        raise


def verify_data(directory: str | Path, manifest: Manifest, verify: str = "once") -> None:
    """Compares the checksums of all shards with the manifest.

    `once` compares shards that are new or have changed since the last comparison (size, modification time, inode or
    checksum in the manifest). Results are cached in the directory or, if it is not writable, in the user's cache.
    `always` compares all shards, `never` none. Raises ValueError for the first shard that does not match.
    """
    if verify not in VERIFY:
        raise ValueError(f"`verify` must be one of {', '.join(VERIFY)}. Received: {verify!r}")
    directory = Path(directory)
    if verify == "never" or is_mirror(directory):
        # Shards of a mirror are compared when they are fetched.
        return
    known = _known(directory)
    verified: dict[str, list[Any] | None] = {}
    for shard in manifest.all_shards:
        path = directory / shard.name
        state = _state(path, shard)
        if verify == "always" or known.get(shard.name) != state:
            try:
                verify_shard(path, shard, checksum=True)
            except ValueError as error:
                raise ValueError(f"{error}. {_NEXT_STEP}") from error
        verified[shard.name] = state
    if verified != known:
        _remember(directory, verified)


def _state(path: Path, shard: ShardInfo) -> list[Any] | None:
    """Returns values that change with the content of a file, None if the file does not exist."""
    try:
        stat = path.stat()
    except FileNotFoundError:  # `verify_shard` names the file
        return None
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino, shard.sha256]


def _first_damage(directory: Path, manifest: Manifest) -> str | None:
    mirror = Mirror.at(directory)
    paths = [mirror.path(shard) if mirror else directory / shard.name for shard in manifest.all_shards]
    return next(filter(None, (find_damage(path) for path in paths if not mirror or path.exists())), None)


def _places(directory: Path) -> list[Path]:
    """Returns the possible cache files: in the data directory and in the user's cache."""
    caches = [os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME") and f"{os.environ['HOME']}/.cache"]
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return [
        directory / VERIFIED_NAME,
        *(Path(cache, "bert_tf", "verified", f"{name}.json") for cache in caches if cache),
    ]


def _known(directory: Path) -> dict[str, Any]:
    for place in _places(directory):
        # If the cache is missing or unreadable, shards are compared again.
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(place.read_bytes())
            if isinstance(content, dict):
                return content
    return {}


def _remember(directory: Path, verified: dict[str, Any]) -> None:
    reasons = []
    for place in _places(directory):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_file(place, json.dumps(verified, indent=1).encode())
        except OSError as error:
            reasons.append(str(error))
        else:
            return
    logger.warning("%s: checksums will be compared again by the next run: %s", directory, "; ".join(reasons))
