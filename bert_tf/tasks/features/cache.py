"""Cache of features on disk: outputs of an encoder's layers, computed once.

    manifest.json    source and names of the features; written last
    token_ids.npy    int32 (T,), concatenated word pieces of all rows, [CLS] and [SEP] included
    row_splits.npy   int64 (N + 1,), start offset of each row, and the end
    NAME.npy         float16, (T, H) for a feature of each token (`layer_12`), (N, H) for a feature of each row
                     (`layer_12.mean`)
    index.jsonl      written by `bert-tf features`: one line for each row with its example, place and word pieces

Arrays are in NumPy's format: `numpy.load("layer_12.npy", mmap_mode="r")[begin:end]` is row `begin` to `end`.
They are written to `.partial` and moved when they are complete.

Shape legend: N rows, T tokens of all rows, H hidden.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_tf.config import BertConfig, ConfigError, load_json, local_path, save_json, to_dict
from bert_tf.config.base import read_json_object
from bert_tf.config.files import only_writer, staged_file
from bert_tf.encoding.inference import batches_by_length, most_tokens
from bert_tf.encoding.rows import EncodedRows, Model
from bert_tf.entry.progress import Progress
from bert_tf.training.backends import current_backend

MANIFEST_NAME, INDEX_NAME = "manifest.json", "index.jsonl"
FORMAT_VERSION = 1
_PARTIAL, _NOTE = ".partial", "progress.json"
# Tokens between checkpoints, the maximum that is lost if the process is killed.
_TOKENS_BETWEEN_NOTES = 1 << 16


@dataclass(frozen=True)
class FeatureSource:
    """Source of features: fingerprints of the encoder and of the input rows; features are of tokens or of rows."""

    encoder: str
    rows: str
    by_token: bool


@dataclass(frozen=True)
class FeatureManifest:
    """Contents of manifest.json: source, N, T, and H by feature name."""

    format_version: int
    source: FeatureSource
    rows: int
    tokens: int
    features: dict[str, int]


class FeatureFolder:
    """A directory of features, written by `extract`. Raises ConfigError if it is incomplete or inconsistent."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = local_path(directory)
        path = self.directory / MANIFEST_NAME
        if not path.is_file():
            raise ConfigError(f"{self.directory}: holds no features, or incomplete ones: no {MANIFEST_NAME}")
        self.manifest = load_json(FeatureManifest, path)
        if self.manifest.format_version != FORMAT_VERSION:
            version = self.manifest.format_version
            raise ConfigError(f"{path}: `format_version` must be {FORMAT_VERSION}. Received: {version}")
        self.token_ids = self._array("token_ids", (self.manifest.tokens,), np.int32)
        self.row_splits = self._array("row_splits", (self.manifest.rows + 1,), np.int64)

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, name: str) -> np.ndarray:
        """Returns the memory-mapped array of a feature: float16 (T, H) or (N, H)."""
        widths = self.manifest.features
        if name not in widths:
            raise ConfigError(f"{self.directory}: must hold `{name}`. Received: {', '.join(widths)}")
        length = len(self.token_ids) if self.manifest.source.by_token else len(self)
        return self._array(name, (length, widths[name]), np.float16)

    def row(self, number: int) -> dict[str, np.ndarray]:
        """Returns the features of one row by name: float16 (tokens of the row, H), or (H,) for features of rows."""
        if not self.manifest.source.by_token:
            return {name: self[name][number] for name in self.manifest.features}
        begin, end = self.row_splits[number : number + 2]
        return {name: self[name][begin:end] for name in self.manifest.features}

    @property
    def index(self) -> list[dict[str, Any]]:
        """Contents of `index.jsonl`, one entry for each row; only if `bert-tf features` wrote the directory."""
        lines = (self.directory / INDEX_NAME).read_text(encoding="utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        path = self.directory / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: not a readable array: {error}") from error
        if array.shape != shape or array.dtype != dtype:
            raise ConfigError(f"{path}: must be {np.dtype(dtype)} {shape}. Received: {array.dtype} {array.shape}")
        return array


@dataclass(frozen=True)
class Extraction:
    """Features to compute, with H by name in `widths`, and the fingerprint of the encoder.

    `build` builds the model of the named features, from the encoder's inputs to a dictionary of float16 tensors: (B, S,
    H) for features of tokens (`by_token`), (B, H) for features of rows. `config`, the encoder's, serves to estimate the
    memory of a batch.
    """

    build: Callable[[Sequence[str]], keras.Model]
    widths: Mapping[str, int]
    by_token: bool
    encoder: str
    config: BertConfig

    def source(self, rows: EncodedRows) -> FeatureSource:
        """Returns the source of these features."""
        return FeatureSource(self.encoder, rows_fingerprint(rows), self.by_token)

    def values(self, rows: EncodedRows) -> int:
        """Returns the number of vectors of a feature."""
        return len(rows.token_ids) if self.by_token else len(rows)


def extract(extraction: Extraction, rows: EncodedRows, directory: str | Path) -> FeatureFolder:
    """Computes the features of all rows that are not in a directory yet.

    Rows have one choice each. The directory is new, empty, or holds features of the same encoder and rows. After an
    interruption, a call with the same rows resumes. It waits while another process writes to the directory. Raises
    ConfigError if the directory has other contents, or there is not enough disk space; ValueError for features outside
    of float16's range.
    """
    directory = local_path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    # Runs that only read do not wait for each other.
    if (directory / MANIFEST_NAME).is_file() and set(extraction.widths) <= set(_cached(extraction, rows, directory)):
        return FeatureFolder(directory)
    with only_writer(directory, "writing features to", wait=True):
        cached = _cached(extraction, rows, directory)
        missing = [name for name in extraction.widths if name not in cached]
        if missing:
            _write(extraction, missing, rows, directory)
            features = cached | {name: extraction.widths[name] for name in missing}
            source = extraction.source(rows)
            manifest = FeatureManifest(FORMAT_VERSION, source, len(rows), len(rows.token_ids), features)
            save_json(manifest, directory / MANIFEST_NAME)
            shutil.rmtree(directory / _PARTIAL)
    return FeatureFolder(directory)


def rows_fingerprint(rows: EncodedRows) -> str:
    """Returns the SHA-256 of the model inputs of the rows."""
    digest = hashlib.sha256()
    for values in (rows.token_ids, rows.row_splits, rows.first_lengths):
        digest.update(np.ascontiguousarray(values, np.int64).tobytes())
    return digest.hexdigest()


def _cached(extraction: Extraction, rows: EncodedRows, directory: Path) -> dict[str, int]:
    """Returns the widths of the features that the directory already holds."""
    if (directory / MANIFEST_NAME).is_file():
        manifest = FeatureFolder(directory).manifest
        if manifest.source != extraction.source(rows):
            raise ConfigError(
                f"{directory}: holds features of another encoder or other texts. Use another directory, or remove it."
            )
        return manifest.features
    known = {INDEX_NAME, "token_ids.npy", "row_splits.npy", *(f"{name}.npy" for name in extraction.widths)}
    unknown = sorted(path.name for path in directory.iterdir() if path.name not in known and path.name[0] != ".")
    if unknown:
        raise ConfigError(f"{directory}: must be new, empty or hold features. Received: it holds {unknown}")
    return {}


def _write(extraction: Extraction, names: Sequence[str], rows: EncodedRows, directory: Path) -> None:
    partial = directory / _PARTIAL
    note = {"source": to_dict(extraction.source(rows)), "names": list(names)}
    done = _done(partial, note, extraction, rows)
    mode: Any = "r+" if done else "w+"
    arrays = {}
    for name in names:
        shape = (extraction.values(rows), extraction.widths[name])
        arrays[name] = np.lib.format.open_memmap(partial / f"{name}.npy", mode, np.float16, shape)

    def keep(count: int) -> None:
        for array in arrays.values():
            array.flush()
        save_json(note | {"done": count}, partial / _NOTE)

    _compute(current_backend().compile_predict(extraction.build(names)), extraction, rows, arrays, done, keep)
    for name, values in (("token_ids", rows.token_ids), ("row_splits", rows.row_splits)):
        with staged_file(directory / f"{name}.npy") as file:
            np.save(file, values.astype(np.int32 if name == "token_ids" else np.int64))
    for name in names:
        (partial / f"{name}.npy").replace(directory / f"{name}.npy")


def _done(partial: Path, note: Mapping[str, Any], extraction: Extraction, rows: EncodedRows) -> int:
    """Returns the number of rows written by an interrupted process, longest first; if there are none, starts anew."""
    path = partial / _NOTE
    if path.is_file():
        stored = read_json_object(path)
        done = stored.pop("done")
        if stored == note and all((partial / f"{name}.npy").is_file() for name in note["names"]):
            return done
    shutil.rmtree(partial, ignore_errors=True)
    size = sum(2 * extraction.values(rows) * extraction.widths[name] for name in note["names"])
    free = shutil.disk_usage(partial.parent).free
    if size > free:
        raise ConfigError(f"{partial.parent}: the features need {size:,} bytes of disk space. Received: {free:,} free")
    partial.mkdir()
    return 0


def _compute(
    model: Model,
    extraction: Extraction,
    rows: EncodedRows,
    arrays: Mapping[str, np.ndarray],
    done: int,
    keep: Callable[[int], None],
) -> None:
    """Fills the arrays after the first `done` rows, in the order of `batches_by_length`."""
    kept, since = done, 0
    progress = Progress("tokens", int(np.sort(rows.lengths)[: len(rows) - done].sum()))
    try:
        for batch in batches_by_length(rows, most_tokens(extraction.config, rows.longest), done):
            outputs = model(rows.inputs(batch))
            place, mask = rows.places(batch, rows.width(batch))
            for name, array in arrays.items():
                _check(name, outputs[name], mask if extraction.by_token else None, batch)
                if extraction.by_token:
                    array[place[mask]] = outputs[name][mask]
                else:
                    array[batch] = outputs[name]
            done += len(batch)
            tokens = int(mask.sum())
            progress.add(tokens)
            since += tokens
            if since >= _TOKENS_BETWEEN_NOTES:
                keep(done)
                kept, since = done, 0
    finally:
        if done > kept:
            keep(done)


def _check(name: str, values: np.ndarray, mask: np.ndarray | None, batch: np.ndarray) -> None:
    """Raises ValueError for values that are not finite in float16; clipping them would be silently wrong."""
    bad = ~np.isfinite(values).all(axis=-1)
    if mask is not None:
        bad = (bad & mask).any(axis=1)
    if bad.any():
        row = int(batch[int(bad.argmax())])
        raise ValueError(
            f"`{name}` of row {row} must be numbers within 65504, the range of float16. Received: others, or NaN"
        )
