"""The output directory of a run: its owner, its finished shards, and its completion."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import STAGING_PREFIX, TOKEN_NAME, RunOutput
from beam_pipelines.run_plan import RunPlan
from beam_pipelines.runners.versions import result_versions
from beam_pipelines.transforms.build_shards import REPORTS, ShardReport, bucket_name
from bert_tf.config import ConfigError, to_dict
from bert_tf.config.files import STAGING_PATTERN
from bert_tf.data.schema import (
    DATA_ALGORITHM_VERSION,
    MANIFEST_NAME,
    REPORT_NAME,
    SCHEMA_VERSION,
    VERIFIED_NAME,
    VOCABULARY_NAME,
)

RUN_NAME = "run.json"
DEAD_LETTERS = "dead_letters.jsonl"
# Fields of the description that depend on installed software, not on input or flags.
_SOFTWARE = ("data_algorithm_version", "schema_version", "versions.")
_SOFTWARE_OF_RUN = "software"


def describe_run(plan: RunPlan) -> dict[str, Any]:
    """Returns everything that determines the bytes of a data directory, as plain values.

    The bytes do not depend on the versions of Beam and Python, except for Python's Unicode database. They depend on the
    version of bert_tf only through `DATA_ALGORITHM_VERSION`.
    """
    corpus, configs = plan.corpus, list(plan.configs.values())
    inputs = [to_dict(source) | {"pattern": ""} for source in corpus.inputs]
    files = [[file.path, file.size, file.modified, file.label, inputs[file.source]] for file in corpus.files]
    config = to_dict(configs[0])
    for name in ("max_seq_length", "max_predictions_per_seq"):
        config[name] = [getattr(length_config, name) for length_config in configs]
    return {
        "config": config,
        "vocabulary_sha256": plan.vocabulary.fingerprint,
        "input_files": len(files),
        "input_sha256": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "read_settings": to_dict(plan.settings),
        "schema_version": SCHEMA_VERSION,
        "data_algorithm_version": DATA_ALGORITHM_VERSION,
        "versions": result_versions(),
    }


def installed_software() -> dict[str, str]:
    """Returns versions that a run records although its result does not depend on them."""
    return {
        "apache-beam": importlib.metadata.version("apache-beam"),
        "bert-tf": importlib.metadata.version("bert-tf"),
        "python": platform.python_version(),
    }


@dataclass(frozen=True)
class DataDirectory:
    """A directory, on any file system supported by Beam, that belongs to one run."""

    path: str
    plan: RunPlan

    @functools.cached_property
    def run(self) -> dict[str, Any]:
        """Description of the run."""
        return describe_run(self.plan)

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of the shards."""
        return tuple(self.plan.configs)

    @functools.cached_property
    def output(self) -> RunOutput:
        """Writer of the files of this run."""
        return RunOutput(self.path)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the run description."""
        return hashlib.sha256(json.dumps(self.run, sort_keys=True).encode()).hexdigest()

    def file(self, *names: str) -> str:
        """Returns the path of a file in the directory."""
        return storage.join(self.path, *[name for name in names if name])

    def claim(self) -> bool:
        """Claims the directory for this run and deletes partial files of a killed run.

        Returns True if the run is already finished. Raises ConfigError if the directory belongs to another run, has
        other files, or cannot be written.
        """
        entries = storage.names_in(self.path)
        expected = {
            RUN_NAME,
            DEAD_LETTERS,
            REPORTS,
            TOKEN_NAME,
            *fnmatch.filter(entries, f"{STAGING_PREFIX}*"),
            *self.folders,
        }
        half_written = self._half_written("", expected | self._names_of_data if "" in self.folders else expected)
        for folder in filter(None, self.folders):
            half_written += self._half_written(folder, self._names_of_data)
        recorded = self._check_same_run(entries)
        self.output.begin()
        storage.delete(half_written)
        software = installed_software()
        recorded += [software] if software not in recorded else []
        description = self.run | {_SOFTWARE_OF_RUN: recorded}
        storage.write(self.file(RUN_NAME), (json.dumps(description, indent=2) + "\n").encode())
        return self.is_finished()

    def is_finished(self) -> bool:
        """Returns True if every folder has its manifest."""
        return all(MANIFEST_NAME in storage.names_in(self.file(folder)) for folder in self.folders)

    def _half_written(self, folder: str, expected: set[str]) -> list[str]:
        entries = storage.names_in(self.file(folder))
        half_written = fnmatch.filter(entries, STAGING_PATTERN)
        foreign = sorted(set(entries) - set(half_written) - expected)
        if foreign:
            raise ConfigError(
                f"--output {self.file(folder)}: has other files ({', '.join(foreign[:3])}). Choose another directory."
            )
        return [self.file(folder, name) for name in half_written]

    @property
    def _names_of_data(self) -> set[str]:
        shards = {bucket_name(self.plan.buckets, bucket) for bucket in range(len(self.plan.buckets))}
        return shards | {MANIFEST_NAME, VOCABULARY_NAME, REPORT_NAME, VERIFIED_NAME}

    def _check_same_run(self, entries: Mapping[str, int]) -> list[dict[str, str]]:
        """Compares the recorded run description with this run, and returns the software versions recorded so far."""
        content = storage.read(self.file(RUN_NAME))
        if content is None:
            if any(name != TOKEN_NAME and not name.startswith(STAGING_PREFIX) for name in entries):
                raise ConfigError(f"--output {self.path}: has data without {RUN_NAME}. Choose another directory.")
            return []
        try:
            older = json.loads(content)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{self.file(RUN_NAME)}: invalid JSON: {error}") from error
        recorded = older.pop(_SOFTWARE_OF_RUN, []) if isinstance(older, dict) else []
        differing = _differences(older, self.run)
        if not differing:
            return list(recorded)
        if all(name.startswith(_SOFTWARE) for name in differing):
            packages = dict.fromkeys(f"bert-tf {software.get('bert-tf')}" for software in recorded)
            begun = " and ".join(packages) or "an older bert-tf"
            raise ConfigError(
                f"--output {self.path}: was created by {begun} with other software versions "
                f"({', '.join(differing)}), which may change its bytes; shards of both must not be mixed. Delete the "
                "directory and run the command again, choose another directory, or continue with the versions in "
                f"{self.file(RUN_NAME)}."
            )
        raise ConfigError(
            f"--output {self.path}: belongs to another run (differs in {', '.join(differing)}). "
            "Choose another directory or delete this one."
        )

    def reports(self, verify: bool) -> list[ShardReport]:
        """Returns the reports of the finished buckets of this run, sorted by bucket.

        With `verify`, buckets are skipped if the size or checksum of a shard does not match. On an object store the
        checksum of the store is used, so no shard is downloaded.
        """
        sizes = {folder: storage.names_in(self.file(folder)) for folder in self.folders} if verify else {}
        reports = []
        for name in sorted(storage.names_in(self.file(REPORTS))):
            content = storage.read(self.file(REPORTS, name)) if name.endswith(".json") else None
            if content is None or name.startswith("."):
                continue
            report = ShardReport.from_json(content)
            if report.fingerprint == self.fingerprint and (not verify or self._is_complete(report, sizes)):
                reports.append(report)
        return sorted(reports, key=lambda report: report.bucket)

    def _is_complete(self, report: ShardReport, sizes: Mapping[str, Mapping[str, int]]) -> bool:
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


def _differences(older: Any, newer: Mapping[str, Any], prefix: str = "") -> list[str]:
    if not isinstance(older, Mapping):
        return [prefix or "everything"]
    names = []
    for key in sorted(set(older) | set(newer)):
        before, now = older.get(key), newer.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            names += _differences(before, now, f"{prefix}{key}.")
        elif before != now:
            names.append(f"{prefix}{key}")
    return names
