"""The output directory of a run: the run it belongs to, the shards it holds already, and how it is finished."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib.metadata
import json
import platform
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import STAGING_PREFIX, TOKEN_NAME, RunOutput
from beam_pipelines.sources.corpus import Corpus
from beam_pipelines.sources.documents import ReadSettings
from beam_pipelines.transforms.build_shards import REPORTS, ShardReport, bucket_name
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.config import ConfigError, DataConfig, to_dict
from bert_tf.data.atomic_files import STAGING_PATTERN
from bert_tf.data.schema import (
    DATA_ALGORITHM_VERSION,
    MANIFEST_NAME,
    REPORT_NAME,
    SCHEMA_VERSION,
    VERIFIED_NAME,
    VOCABULARY_NAME,
    length_folder,
)
from bert_tf.text.vocabulary import Vocabulary

RUN_NAME = "run.json"
DEAD_LETTERS = "dead_letters.jsonl"
# Packages whose version may change a byte of the result.
_PACKAGES = ("datasketch", "mwparserfromhell", "numpy", "py3langid", "sentencex", "tensorflow-text")
# Fields of the description that follow from installed software, and not from the input or a flag.
_SOFTWARE = ("data_algorithm_version", "schema_version", "versions.")
_SOFTWARE_OF_RUN = "software"


def describe_run(
    corpus: Corpus, configs: Sequence[DataConfig], vocabulary: Vocabulary, settings: ReadSettings
) -> dict[str, Any]:
    """Returns everything the bytes of a data directory depend on, as plain values.

    They do not depend on the versions of Beam and Python, but for Python's Unicode database, and on the version of
    bert_tf only by its `DATA_ALGORITHM_VERSION`.
    """
    inputs = [to_dict(source) | {"pattern": ""} for source in corpus.inputs]
    files = [[file.path, file.size, file.modified, file.label, inputs[file.source]] for file in corpus.files]
    config = to_dict(configs[0])
    for name in ("max_seq_length", "max_predictions_per_seq"):
        config[name] = [getattr(own, name) for own in configs]
    return {
        "config": config,
        "vocabulary_sha256": vocabulary.fingerprint,
        "input_files": len(files),
        "input_sha256": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "read_settings": to_dict(settings),
        "schema_version": SCHEMA_VERSION,
        "data_algorithm_version": DATA_ALGORITHM_VERSION,
        "versions": {
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
            "python-unicode": unicodedata.unidata_version,
        },
    }


def installed_software() -> dict[str, str]:
    """Returns versions that a run records although no byte of its result depends on them."""
    return {
        "apache-beam": importlib.metadata.version("apache-beam"),
        "bert-tf": importlib.metadata.version("bert-tf"),
        "python": platform.python_version(),
    }


def by_folder(configs: Sequence[DataConfig]) -> dict[str, DataConfig]:
    """Returns the configs by the folder their shards go to: the directory itself where there is one length only."""
    if len(configs) == 1:
        return {"": configs[0]}
    return {length_folder(config.max_seq_length): config for config in configs}


@dataclass(frozen=True)
class DataDirectory:
    """A directory that belongs to one run.

    Args:
        path: any file system Beam knows.
        run: what `describe_run` returns.
        buckets: names the shards.
        folders: of the shards, see `by_folder`.
    """

    path: str
    run: dict[str, Any]
    buckets: Buckets
    folders: tuple[str, ...]

    @functools.cached_property
    def output(self) -> RunOutput:
        """Writes the files of this run."""
        return RunOutput(self.path)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the description of the run."""
        return hashlib.sha256(json.dumps(self.run, sort_keys=True).encode()).hexdigest()

    def file(self, *names: str) -> str:
        """Returns the path of a file in it."""
        return storage.join(self.path, *[name for name in names if name])

    def claim(self) -> bool:
        """Takes the directory for this run and deletes what a killed run left half-written.

        Returns:
            Whether the run is finished already.

        Raises:
            ConfigError: when it holds something else, or cannot be written.
        """
        there = storage.names_in(self.path)
        own = {RUN_NAME, DEAD_LETTERS, REPORTS, TOKEN_NAME, *fnmatch.filter(there, f"{STAGING_PREFIX}*"), *self.folders}
        half_written = self._half_written("", own | self._names_of_data if "" in self.folders else own)
        for folder in filter(None, self.folders):
            half_written += self._half_written(folder, self._names_of_data)
        recorded = self._check_same_run(there)
        self.output.begin()
        storage.delete(half_written)
        software = installed_software()
        recorded += [software] if software not in recorded else []
        description = self.run | {_SOFTWARE_OF_RUN: recorded}
        storage.write(self.file(RUN_NAME), (json.dumps(description, indent=2) + "\n").encode())
        return all(MANIFEST_NAME in storage.names_in(self.file(folder)) for folder in self.folders)

    def _half_written(self, folder: str, own: set[str]) -> list[str]:
        there = storage.names_in(self.file(folder))
        half_written = fnmatch.filter(there, STAGING_PATTERN)
        foreign = sorted(set(there) - set(half_written) - own)
        if foreign:
            raise ConfigError(
                f"--output {self.file(folder)}: holds something else ({', '.join(foreign[:3])}); choose another "
                "directory."
            )
        return [self.file(folder, name) for name in half_written]

    @property
    def _names_of_data(self) -> set[str]:
        shards = {bucket_name(self.buckets, bucket) for bucket in range(len(self.buckets))}
        return shards | {MANIFEST_NAME, VOCABULARY_NAME, REPORT_NAME, VERIFIED_NAME}

    def _check_same_run(self, there: Mapping[str, int]) -> list[dict[str, str]]:
        """Compares the descriptions of the run in the directory and of this one.

        Returns:
            The software that took part in the run so far.
        """
        content = storage.read(self.file(RUN_NAME))
        if content is None:
            if any(name != TOKEN_NAME and not name.startswith(STAGING_PREFIX) for name in there):
                raise ConfigError(f"--output {self.path}: holds data without {RUN_NAME}; choose another directory.")
            return []
        try:
            older = json.loads(content)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{self.file(RUN_NAME)}: not JSON: {error}") from error
        recorded = older.pop(_SOFTWARE_OF_RUN, []) if isinstance(older, dict) else []
        differing = _differences(older, self.run)
        if not differing:
            return list(recorded)
        if all(name.startswith(_SOFTWARE) for name in differing):
            packages = dict.fromkeys(f"bert-tf {software.get('bert-tf')}" for software in recorded)
            begun = " and ".join(packages) or "an older bert-tf"
            raise ConfigError(
                f"--output {self.path}: was made by {begun} with other versions of what decides its bytes "
                f"({', '.join(differing)}); shards of both must not be mixed. Delete the directory and run the command "
                f"again, or choose another directory, or go on with the versions that {self.file(RUN_NAME)} names."
            )
        raise ConfigError(
            f"--output {self.path}: belongs to another run (differs in {', '.join(differing)}); "
            "choose another directory or delete it."
        )

    def reports(self, verify: bool) -> list[ShardReport]:
        """Returns the reports of the buckets that are done, by bucket.

        Args:
            verify: also compare the size and checksum of every shard, and leave out those that do not match. On an
                object store the checksum is the one that the store keeps, so that no shard is downloaded.
        """
        sizes = {folder: storage.names_in(self.file(folder)) for folder in self.folders} if verify else {}
        found = []
        for name in sorted(storage.names_in(self.file(REPORTS))):
            content = storage.read(self.file(REPORTS, name)) if name.endswith(".json") else None
            if content is None or name.startswith("."):
                continue
            report = ShardReport.from_json(content)
            if report.fingerprint == self.fingerprint and (not verify or self._stands(report, sizes)):
                found.append(report)
        return sorted(found, key=lambda report: report.bucket)

    def _stands(self, report: ShardReport, sizes: Mapping[str, Mapping[str, int]]) -> bool:
        for folder, length in zip(self.folders, report.lengths, strict=True):
            if length.shard is None:
                continue
            path = self.file(folder, length.shard.name)
            if sizes[folder].get(length.shard.name) != length.shard.bytes:
                return False
            if length.stored_checksum:
                if storage.checksum(path) != length.stored_checksum:
                    return False
            elif storage.sha256(path) != length.shard.sha256:
                return False
        return True

    def remove_reports(self) -> None:
        """Deletes the reports; the manifest holds what they said."""
        self.remove(REPORTS)

    def remove(self, name: str) -> None:
        """Deletes a file or folder in it, if it is there."""
        storage.delete([self.file(name)])


def _differences(older: Any, newer: Mapping[str, Any], prefix: str = "") -> list[str]:
    if not isinstance(older, Mapping):
        return [prefix or "everything"]
    found = []
    for key in sorted(set(older) | set(newer)):
        before, now = older.get(key), newer.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            found += _differences(before, now, f"{prefix}{key}.")
        elif before != now:
            found.append(f"{prefix}{key}")
    return found
