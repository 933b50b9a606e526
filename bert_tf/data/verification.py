"""Checksums of data, compared once for each data directory, and damaged records by name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bert_tf.config.data import VERIFY
from bert_tf.data.atomic_files import staged_file
from bert_tf.data.manifest import Manifest, data_directories, read_manifest, verify_shard
from bert_tf.data.schema import VERIFIED_NAME
from bert_tf.data.tfrecord.shards import ShardInfo, find_damage
from bert_tf.entry.errors import is_tensorflow_error

logger = logging.getLogger(__name__)
_NEXT_STEP = "Make the data again with `bert-tf data`, or copy this file again."


@contextlib.contextmanager
def verified_data(path: str | Path, verify: str = "once") -> Iterator[None]:
    """Compares the checksums of data before it is used by the block, and names the record that the block cannot read.

    Args:
        path: a data directory, or the output of `bert-tf data` with several lengths.
        verify: see `verify_data`.

    Raises:
        ValueError: where a shard is not what its manifest says, or the block fails for a damaged record; names the
            shard, and the record with its place where its framing is damaged.
    """
    manifests = {folder: read_manifest(folder) for folder in data_directories(path) or [Path(path)]}
    for folder, manifest in manifests.items():
        verify_data(folder, manifest, verify)
    try:
        yield
    except Exception as error:
        if is_tensorflow_error(error, "DataLossError"):
            # It says at which byte, but of which file it does not say.
            for folder, manifest in manifests.items():
                if damage := _first_damage(folder, manifest):
                    raise ValueError(f"{damage}. {_NEXT_STEP}") from error
        raise


def verify_data(directory: str | Path, manifest: Manifest, verify: str = "once") -> None:
    """Compares the checksums of all shards with the manifest.

    Args:
        directory: of the shards.
        manifest: of the same.
        verify: `once` compares shards that were not compared before, or have changed since (size, time of the last
            change, inode or checksum in the manifest). What was compared is kept in the directory or, where that
            cannot be written to, in the user's cache. `always` compares all, `never` none.

    Raises:
        ValueError: for the first shard that does not match; names it.
    """
    if verify not in VERIFY:
        raise ValueError(f"`verify` must be one of {', '.join(VERIFY)}. Received: {verify!r}")
    if verify == "never":
        return
    directory = Path(directory)
    known = _known(directory)
    verified: dict[str, list[Any] | None] = {}
    for shard in _shards(manifest):
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


def _shards(manifest: Manifest) -> Sequence[ShardInfo]:
    return [shard for shards in manifest.shards.values() for shard in shards]


def _state(path: Path, shard: ShardInfo) -> list[Any] | None:
    """Returns what changes with the content of a file, None where there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:  # `verify_shard` names the file
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ino, shard.sha256]


def _first_damage(directory: Path, manifest: Manifest) -> str | None:
    return next(filter(None, (find_damage(directory / shard.name) for shard in _shards(manifest))), None)


def _places(directory: Path) -> list[Path]:
    """Returns the files that may hold what was compared: in the directory and in the user's cache."""
    caches = [os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME") and f"{os.environ['HOME']}/.cache"]
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return [
        directory / VERIFIED_NAME,
        *(Path(cache, "bert_tf", "verified", f"{name}.json") for cache in caches if cache),
    ]


def _known(directory: Path) -> dict[str, Any]:
    for place in _places(directory):
        # A file that is missing or unreadable says nothing: shards are compared again.
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
            with staged_file(place) as file:
                file.write(json.dumps(verified, indent=1).encode())
        except OSError as error:
            reasons.append(str(error))
        else:
            return
    logger.warning("%s: checksums will be compared again by the next run: %s", directory, "; ".join(reasons))
