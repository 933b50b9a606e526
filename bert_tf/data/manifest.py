"""The manifest of a data directory: contents, configuration, and integrity checks.

A data directory holds `manifest.json`, `vocab.txt` and the shards. The manifest is written last, so a directory
without one is incomplete.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.config.base import from_dict, read_json_object, to_dict
from bert_tf.config.data import DataConfig
from bert_tf.config.files import sha256_of, write_file
from bert_tf.data.schema import MANIFEST_NAME, SCHEMA_VERSION, SPLITS, VOCABULARY_NAME, length_folder
from bert_tf.data.tfrecord.shards import ShardInfo, find_damage, find_long_record
from bert_tf.storage.mirrors import data_path, is_mirror
from bert_tf.text.vocabulary import Vocabulary, load_vocabulary

_VERSIONED = (
    "bert-tf", "apache-beam", "datasketch", "google-crc32c", "mwparserfromhell", "numpy", "py3langid", "pyarrow",
    "sentencex", "tensorflow", "tensorflow-text",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One input of a corpus with its document counts."""

    input: str  # glob or package name
    format: str
    language: str
    weight: float  # sampling weight
    files: int
    bytes: int  # on disk
    documents_read: int = 0
    documents: int = 0  # used for examples
    tokens: int = 0  # word pieces in the used documents
    left_out: dict[str, int] = field(default_factory=dict)  # number of documents by reason


@dataclass(frozen=True)
class Manifest:
    """Contents of `manifest.json`.

    Args:
        config: configuration of the data, including the seed; `num_shards` is the resolved value.
        vocabulary_sha256: `Vocabulary.fingerprint`.
        vocabulary_size: number of pieces.
        shards: shards in order, by split (`schema.SPLITS`).
        counts: totals, for example documents, sentences, tokens, examples, single_sentence_documents.
        rejected: number of documents left out, by reason.
        sources: inputs, in the order of the command line.
        histograms: `example_lengths`, examples by number of tokens from 0 to `max_seq_length`; `document_lengths`,
            documents by the base-2 logarithm of their tokens, rounded down.
        label_histogram: examples by label, `next` and `random`.
        unk_rate: share of [UNK] among all tokens of the corpus.
        fill: mean length of an example as a share of `max_seq_length`.
        versions: library versions, see `library_versions`.
        unicode_version: Unicode version of the normalization table.
        schema_version: version of the record and manifest schema.

    Example:
        >>> manifest = bert_tf.read_manifest("data")  # written by `bert-tf data --output data`
        >>> manifest.config.max_seq_length, manifest.vocabulary_size
        (32, 100)
        >>> manifest.examples("train") > 0
        True
    """

    config: DataConfig
    vocabulary_sha256: str
    vocabulary_size: int
    shards: dict[str, tuple[ShardInfo, ...]]
    counts: dict[str, int]
    rejected: dict[str, int] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    histograms: dict[str, list[int]] = field(default_factory=dict)
    label_histogram: dict[str, int] = field(default_factory=dict)
    unk_rate: float = 0.0
    fill: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    unicode_version: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def all_shards(self) -> list[ShardInfo]:
        """Shards of all splits."""
        return [shard for shards in self.shards.values() for shard in shards]

    def examples(self, split: str) -> int:
        """Returns the number of examples in `split`."""
        return sum(shard.examples for shard in self.shards.get(split, ()))


def library_versions() -> dict[str, str]:
    """Returns the versions of Python and the libraries that the data depends on."""
    versions = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def write_manifest(manifest: Manifest, directory: str | Path) -> Path:
    """Writes `manifest.json` into `directory` atomically and returns its path."""
    path = Path(directory) / MANIFEST_NAME
    fields = {"schema_version": manifest.schema_version} | to_dict(manifest)
    write_file(path, (json.dumps(fields, indent=2, ensure_ascii=False) + "\n").encode())
    return path


def read_manifest(directory: str | Path) -> Manifest:
    """Reads `manifest.json` of a data directory.

    Args:
        directory: data directory, or its URL.

    Returns:
        The manifest.

    Raises:
        ConfigError: if the file is missing, unreadable or has a different schema version, or if a field is unknown,
            missing or has the wrong type; names file and field.

    Example:
        >>> manifest = bert_tf.read_manifest("data")  # written by `bert-tf data --output data`
        >>> sorted(manifest.shards)
        ['train', 'validation']
        >>> manifest.counts["documents_read"]
        60
    """
    directory = data_path(directory)
    path = directory / MANIFEST_NAME
    if not path.is_file():
        lengths = sorted(folder.name for folder in directory.glob(length_folder("*")) if folder.is_dir())
        if lengths:
            raise ConfigError(
                f"{directory} holds data of several lengths. Use one of its folders: {', '.join(lengths)}."
            )
        raise ConfigError(
            f"{path} is missing: {directory} is not a data directory, or `bert-tf data` did not finish. "
            f"Run `bert-tf data --output {directory}` again."
        )
    fields = read_json_object(path)
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ConfigError(f"{path}: `schema_version` must be {SCHEMA_VERSION}. Received: {version!r}")
    if missing := sorted({field.name for field in dataclasses.fields(Manifest)} - fields.keys()):
        raise ConfigError(f"{path}: missing field: {', '.join(missing)}")
    manifest = from_dict(Manifest, fields, str(path))
    if set(manifest.shards) != set(SPLITS):
        raise ConfigError(f"{path}: `shards` must have the splits {', '.join(SPLITS)}. Received: {fields['shards']!r}")
    for shard in manifest.all_shards:
        if Path(shard.name).name != shard.name:
            raise ConfigError(f"{path}: `shards`: `name` must be a file name. Received: {shard.name!r}")
    return manifest


def check_vocabulary(manifest: Manifest, vocabulary: Vocabulary) -> None:
    """Raises ValueError if a vocabulary is not the vocabulary of the data, by size or fingerprint."""
    if (len(vocabulary), vocabulary.fingerprint) != (manifest.vocabulary_size, manifest.vocabulary_sha256):
        raise ValueError(
            f"the data was made with a vocabulary of {manifest.vocabulary_size} pieces and SHA-256 "
            f"{manifest.vocabulary_sha256}. Received: {len(vocabulary)} pieces and {vocabulary.fingerprint}. Use the "
            "data that the model was trained on, or run `bert-tf data --vocabulary` with the word pieces of the model."
        )


def verify_shards(directory: str | Path, manifest: Manifest, checksums: bool = False) -> None:
    """Raises ValueError, which names the first shard that does not exist or has another size than in the manifest.

    With `checksums`, SHA-256 is also compared, which reads all data. Shards of a mirror are compared when they are
    fetched.
    """
    if is_mirror(Path(directory)):
        return
    for shard in manifest.all_shards:
        verify_shard(Path(directory) / shard.name, shard, checksums)


def verify_shard(path: Path, shard: ShardInfo, checksum: bool) -> None:
    """Raises ValueError if a shard does not exist, has another size than in the manifest, or another SHA-256.

    With `checksum`, the file is read. The error names the file and, if the framing of a record is damaged, the record.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing, but the manifest lists it.")
    if (size := path.stat().st_size) != shard.bytes:
        raise ValueError(f"{path}: must have {shard.bytes} bytes by the manifest. Received: {size}")
    if checksum and (digest := sha256_of(path)) != shard.sha256:
        damage = find_damage(path) or f"{path}: every record is intact, but the content has changed"
        raise ValueError(f"{damage}. SHA-256 must be {shard.sha256} by the manifest. Received: {digest}")
    # The manifest of a data directory of somebody else fits its shards in any case.
    if checksum and (beyond := find_long_record(path)):
        raise ValueError(beyond)


def open_data(
    directory: str | Path, vocabulary: Vocabulary | None = None, checksums: bool = False
) -> tuple[Manifest, Vocabulary]:
    """Reads and checks a data directory: manifest, copy of the vocabulary, which is returned with it, and shards.

    A `vocabulary`, for example that of a model, is compared with that of the data; for `checksums` see `verify_shards`.
    Raises ValueError if a file is missing or does not match the manifest.
    """
    directory = data_path(directory)
    manifest = read_manifest(directory)
    data_vocabulary = load_vocabulary(directory / VOCABULARY_NAME)
    for pieces in (data_vocabulary, vocabulary):
        if pieces is not None:
            try:
                check_vocabulary(manifest, pieces)
            except ValueError as error:
                raise ValueError(f"{directory}: {error}") from error
    verify_shards(directory, manifest, checksums)
    return manifest, data_vocabulary


def data_directories(path: str | Path) -> list[Path]:
    """Returns the data directories at `path`: `path` itself, or its folders of several lengths, shortest first.

    The list is empty if there are none. Raises ConfigError if a manifest cannot be read.
    """
    path = data_path(path)
    if (path / MANIFEST_NAME).is_file():
        return [path]
    folders = [folder for folder in path.glob(length_folder("*")) if folder.is_dir()]
    return sorted(folders, key=lambda folder: read_manifest(folder).config.max_seq_length)
