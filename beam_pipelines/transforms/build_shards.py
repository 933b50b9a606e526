"""Writes the documents of a bucket to one shard for each example length, with a report."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.runners.versions import SameVersionsDoFn
from beam_pipelines.transforms.packed_documents import Gathered, read_spilled, unpack
from beam_pipelines.transforms.rejections import NAMESPACE
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.config import DataConfig
from bert_tf.data.examples.build import Examples, TokenizedDocument, draw_examples
from bert_tf.data.masking.tokens import mask_pairs
from bert_tf.data.randomness import stream_keys, uniform
from bert_tf.data.schema import shard_name
from bert_tf.data.tfrecord.shards import ShardInfo, encode_dynamic, encode_static, write_shard
from bert_tf.text.vocabulary import Vocabulary

REPORTS = ".reports"
# Reasons for leaving out a tokenized document.
DUPLICATE, NEAR_DUPLICATE, NOT_DRAWN = "duplicate", "near_duplicate", "not_drawn"
# Key of the random stream that rounds weights, among the streams of (seed, document id).
_WEIGHT_STREAM = 0x776569676874
# Number of examples assembled, masked and encoded at once.
_ROWS = 8192


@dataclasses.dataclass(frozen=True)
class LengthReport:
    """The examples of one length."""

    shard: ShardInfo | None  # None if there is no example
    counts: dict[str, int]  # of examples, tokens, labels and so on, to be summed over buckets
    example_lengths: list[int]  # number of examples by number of tokens
    stored_checksum: str  # checksum of the shard on the object store; empty on a local path


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """Report of a finished bucket to the driver."""

    bucket: int
    fingerprint: str  # of the run that wrote it
    counts: dict[str, int]  # of documents, sentences, tokens and so on, to be summed over buckets
    sources: dict[str, dict[str, int]]  # documents, tokens, and left out by reason; by source number
    document_lengths: list[int]  # documents by base-2 logarithm of their tokens, rounded down
    lengths: list[LengthReport]

    def to_json(self) -> bytes:
        """Returns the report as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ShardReport:
        """Reads a report written by `to_json`."""
        fields = json.loads(content)
        lengths = [
            LengthReport(**(length | {"shard": ShardInfo(**length["shard"]) if length["shard"] else None}))
            for length in fields["lengths"]
        ]
        return cls(**(fields | {"lengths": lengths}))


def bucket_name(buckets: Buckets, bucket: int) -> str:
    """Returns the file name of the shard of `bucket`."""
    return shard_name(*buckets.name(bucket))


@dataclasses.dataclass(frozen=True)
class SelectedDocuments:
    """The D documents of a bucket that are used for examples."""

    documents: list[TokenizedDocument]  # sorted by id
    copies: np.ndarray  # int64 [D], number of passes with each document, at least one
    left_out: Counter[tuple[int, str]]  # number of documents left out by (source, reason)


def select_documents(gathered: Gathered, weights: Sequence[float], config: DataConfig) -> SelectedDocuments:
    """Selects the documents of a bucket, without near-duplicates and documents used in no pass.

    A document is used in `dupe_factor` * weight passes, with the weight of its source; a fraction is rounded up with
    that probability.
    """
    documents = sorted(gathered.documents, key=lambda document: document.document_id)
    left_out = Counter({(source, DUPLICATE): count for source, count in gathered.copies.items()})
    left_out.update((d.source, NEAR_DUPLICATE) for d in documents if d.document_id in gathered.unwanted)
    kept = [document for document in documents if document.document_id not in gathered.unwanted]
    wanted = config.dupe_factor * np.array([weights[document.source] for document in kept], np.float64)
    ids = np.array([document.document_id for document in kept], np.int64)
    rounding = uniform(stream_keys(config.seed, _WEIGHT_STREAM, ids), 0)
    copies = np.floor(wanted).astype(np.int64) + (rounding < wanted % 1.0)
    left_out.update((d.source, NOT_DRAWN) for d, count in zip(kept, copies.tolist(), strict=True) if not count)
    drawn = [document for document, count in zip(kept, copies.tolist(), strict=True) if count]
    return SelectedDocuments(drawn, copies[copies > 0], left_out)


@dataclasses.dataclass(eq=False, repr=False)
class BuildShard(SameVersionsDoFn):
    """Writes the shards of one bucket, then its report; if the report exists, the shards exist."""

    configs: dict[str, DataConfig]  # by folder
    weights: Sequence[float]  # of the sources
    vocabulary: Vocabulary
    buckets: Buckets  # they name the shards
    output: RunOutput
    fingerprint: str  # of the run
    progress: ProgressLog

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterable[str]:
        """Yields the name of the report of one bucket."""
        bucket, chunks = element
        config = next(iter(self.configs.values()))
        selected = select_documents(unpack(read_spilled(chunks)), self.weights, config)
        name = bucket_name(self.buckets, bucket)
        lengths = [self._build(folder, config, selected, name) for folder, config in self.configs.items()]
        report = ShardReport(
            bucket,
            self.fingerprint,
            _counts(selected, self.vocabulary.unk_id),
            _by_source(selected),
            _histogram(np.array([len(d.token_ids).bit_length() - 1 for d in selected.documents], np.int64)),
            lengths,
        )
        path = storage.join(self.output.directory, REPORTS, f"{Path(name).stem}.json")
        self.output.write(path, report.to_json())
        for counts in (report.counts, *(length.counts for length in lengths)):
            for key, count in counts.items():
                beam.metrics.Metrics.counter(NAMESPACE, key).inc(count)
        self.progress.note("shards", 1)
        yield name

    def _build(self, folder: str, config: DataConfig, selected: SelectedDocuments, name: str) -> LengthReport:
        examples = draw_examples(selected.documents, selected.copies, config, self.vocabulary)
        records = _Records(examples, config, self.vocabulary)
        shard, stored_checksum = None, ""
        if len(examples):
            path = storage.join(self.output.directory, folder) if folder else self.output.directory
            shard = self.output.write_in(path, lambda directory: write_shard(directory / name, records))
            stored_checksum = storage.checksum(storage.join(path, name))
        counts = records.counts | {"skipped_chunks": examples.skipped}
        return LengthReport(shard, counts, _histogram(records.lengths), stored_checksum)


class _Records:
    """Assembles, counts and encodes examples slice by slice, with masks if they are static."""

    def __init__(self, examples: Examples, config: DataConfig, vocabulary: Vocabulary) -> None:
        self._examples, self._config, self._vocabulary = examples, config, vocabulary
        self.counts = {"examples": 0, "example_tokens": 0, "label_next": 0, "label_random": 0}
        self.lengths = np.zeros(0, np.int64)

    def __iter__(self) -> Iterator[bytes]:
        lengths = []
        for begin in range(0, len(self._examples), _ROWS):
            rows = self._examples.rows(begin, begin + _ROWS)
            random = int(rows.next_sentence_labels.sum())
            lengths.append(np.diff(rows.row_splits))
            self.counts["examples"] += len(rows)
            self.counts["example_tokens"] += len(rows.token_ids)
            self.counts["label_random"] += random
            self.counts["label_next"] += len(rows) - random if self._config.next_sentence else 0
            if self._config.masking == "dynamic":
                yield from encode_dynamic(rows)
            else:
                yield from encode_static(rows, mask_pairs(rows, self._config, self._vocabulary), self._config)
        self.lengths = np.concatenate(lengths)


def _counts(selected: SelectedDocuments, unk_id: int) -> dict[str, int]:
    sentences = [len(document.sentence_lengths) for document in selected.documents]
    return {
        "documents": len(selected.documents),
        "single_sentence_documents": sentences.count(1),
        "sentences": sum(sentences),
        "tokens": sum(len(document.token_ids) for document in selected.documents),
        "unknown_tokens": sum(int(np.count_nonzero(d.token_ids == unk_id)) for d in selected.documents),
    }


def _by_source(selected: SelectedDocuments) -> dict[str, Any]:
    sources: dict[int, Counter[str]] = defaultdict(Counter)
    for document in selected.documents:
        sources[document.source].update(documents=1, tokens=len(document.token_ids))
    for (source, reason), count in selected.left_out.items():
        sources[source][reason] += count
    return {str(source): dict(sorted(counts.items())) for source, counts in sorted(sources.items())}


def _histogram(values: np.ndarray) -> list[int]:
    return np.bincount(values).tolist()
