"""The output directory of a run: whose it is, what stands in it already, and how it is finished."""

from __future__ import annotations

import fnmatch
import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_pipelines import storage
from beam_pipelines.sources.corpus import Corpus
from beam_pipelines.transforms.build_shards import REPORTS, ShardReport, bucket_name
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.config import ConfigError, DataConfig, to_dict
from bert_tf.data.manifest import Manifest, library_versions
from bert_tf.data.records import ShardInfo
from bert_tf.data.schema import MANIFEST_NAME, SCHEMA_VERSION, SPLITS, VOCABULARY_NAME
from bert_tf.data.staging import STAGING_PATTERN
from bert_tf.text.build_table import UNICODE_VERSION
from bert_tf.text.vocabulary import Vocabulary

RUN_NAME = "run.json"
DUPLICATE = "duplicate"
DEAD_LETTERS = "dead_letters.jsonl"
# Packages whose version may change a byte of the result.
_PACKAGES = ("tensorflow-text", "sentencex", "numpy")


def describe_run(corpus: Corpus, config: DataConfig, vocabulary: Vocabulary, max_document_bytes: int) -> dict[str, Any]:
    """Returns everything the bytes of a data directory depend on, as plain values."""
    files = [[file.path, file.size, file.modified, file.label] for file in corpus.files]
    return {
        "config": to_dict(config),
        "vocabulary_sha256": vocabulary.fingerprint,
        "input_format": corpus.format,
        "input_files": len(files),
        "input_sha256": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "max_document_bytes": max_document_bytes,
        "schema_version": SCHEMA_VERSION,
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
    }


@dataclass(frozen=True)
class DataDirectory:
    """A directory that belongs to one run.

    Args:
        path: any file system Beam knows.
        run: what `describe_run` returns.
        buckets: names the shards.
    """

    path: str
    run: dict[str, Any]
    buckets: Buckets

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the description of the run."""
        return hashlib.sha256(json.dumps(self.run, sort_keys=True).encode()).hexdigest()

    def file(self, *names: str) -> str:
        """Returns the path of a file in it."""
        return storage.join(self.path, *names)

    def claim(self) -> bool:
        """Takes the directory for this run and deletes what a killed run left half-written.

        Returns:
            Whether the run is finished already.

        Raises:
            ConfigError: when something else is in it.
        """
        if storage.is_local(self.path) and Path(self.path).exists() and not Path(self.path).is_dir():
            raise ConfigError(f"--output {self.path}: is a file, not a directory.")
        there = storage.names_in(self.path)
        half_written = fnmatch.filter(there, STAGING_PATTERN)
        foreign = sorted(set(there) - set(half_written) - self._own_names())
        if foreign:
            raise ConfigError(
                f"--output {self.path}: holds something else ({', '.join(foreign[:3])}); choose another directory."
            )
        self._check_same_run(there)
        storage.delete(self.file(name) for name in half_written)
        storage.write(self.file(RUN_NAME), (json.dumps(self.run, indent=2) + "\n").encode())
        return MANIFEST_NAME in there

    def _own_names(self) -> set[str]:
        shards = {bucket_name(self.buckets, bucket) for bucket in range(len(self.buckets))}
        return shards | {RUN_NAME, DEAD_LETTERS, MANIFEST_NAME, VOCABULARY_NAME, REPORTS}

    def _check_same_run(self, there: Mapping[str, int]) -> None:
        content = storage.read(self.file(RUN_NAME))
        if content is None:
            if there:
                raise ConfigError(f"--output {self.path}: holds data without {RUN_NAME}; choose another directory.")
            return
        try:
            older = json.loads(content)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{self.file(RUN_NAME)}: not JSON: {error}") from error
        differing = _differences(older, self.run)
        if differing:
            raise ConfigError(
                f"--output {self.path}: belongs to another run (differs in {', '.join(differing)}); "
                "choose another directory or delete it."
            )

    def reports(self, verify: bool) -> list[ShardReport]:
        """Returns the reports of the buckets that are done, by bucket.

        Args:
            verify: also compare the checksum of every shard, and leave out those that do not match.
        """
        found = []
        for name in sorted(storage.names_in(self.file(REPORTS))):
            content = storage.read(self.file(REPORTS, name)) if name.endswith(".json") else None
            if content is None or name.startswith("."):
                continue
            report = ShardReport.from_json(content)
            if report.fingerprint == self.fingerprint and (not verify or self._stands(report)):
                found.append(report)
        return sorted(found, key=lambda report: report.bucket)

    def _stands(self, report: ShardReport) -> bool:
        if report.shard is None:
            return True
        content = storage.read(self.file(report.shard.name))
        return content is not None and hashlib.sha256(content).hexdigest() == report.shard.sha256

    def remove_reports(self) -> None:
        """Deletes the reports; the manifest holds what they said."""
        storage.delete([self.file(REPORTS)])


def make_manifest(
    config: DataConfig,
    vocabulary: Vocabulary,
    buckets: Buckets,
    reports: list[ShardReport],
    documents_read: int,
    rejected: Mapping[str, int],
) -> Manifest:
    """Sums the reports of all buckets.

    Args:
        config: `num_shards` as resolved.
        vocabulary: of the token ids.
        buckets: tells training buckets from held-out ones.
        reports: one for each bucket that held a document.
        documents_read: by the source.
        rejected: documents in the dead letters, by reason.
    """
    counts: Counter[str] = Counter(documents_read=documents_read, documents=0, tokens=0, examples=0)
    for report in reports:
        counts.update(report.counts)
    duplicates = counts.pop("duplicates", 0)
    shards: dict[str, list[ShardInfo]] = {split: [] for split in SPLITS}
    for report in reports:
        if report.shard:
            shards[buckets.name(report.bucket)[0]].append(report.shard)
    return Manifest(
        config=config,
        vocabulary_sha256=vocabulary.fingerprint,
        vocabulary_size=len(vocabulary),
        shards={split: tuple(infos) for split, infos in shards.items()},
        label_histogram={name: counts.pop(f"label_{name}", 0) for name in ("next", "random")},
        rejected=dict(rejected) | ({DUPLICATE: duplicates} if duplicates else {}),
        unk_rate=counts["unknown_tokens"] / max(counts["tokens"], 1),
        fill=counts["example_tokens"] / max(counts["examples"] * config.max_seq_length, 1),
        counts={name: int(count) for name, count in sorted(counts.items())},
        versions=library_versions(),
        unicode_version=UNICODE_VERSION,
    )


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
