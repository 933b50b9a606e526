"""A bucket of documents to one shard on disk, with a report of what went into it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import numpy as np

from beam_pipelines import storage
from beam_pipelines.progress import ProgressLog
from beam_pipelines.transforms.compact import unpack
from beam_pipelines.transforms.rejections import NAMESPACE
from beam_pipelines.transforms.tokenize import Buckets
from bert_tf.config import DataConfig
from bert_tf.data.masking import mask_pairs
from bert_tf.data.pairs import Pairs, TokenizedDocument, build_pairs, merge_pairs, unique_documents
from bert_tf.data.records import ShardInfo, encode_dynamic, encode_static, write_shard
from bert_tf.data.schema import shard_name
from bert_tf.text.vocabulary import Vocabulary

REPORTS = ".reports"


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """What the driver learns of a finished bucket.

    Args:
        bucket: its number.
        fingerprint: of the run that made it.
        shard: None where the bucket gave no example.
        counts: documents, duplicates, sentences, tokens and so on, to be summed over buckets.
    """

    bucket: int
    fingerprint: str
    shard: ShardInfo | None
    counts: dict[str, int]

    def to_json(self) -> bytes:
        """Returns the report as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> ShardReport:
        """Reads what `to_json` wrote."""
        fields = json.loads(content)
        shard = ShardInfo(**fields["shard"]) if fields["shard"] else None
        return cls(fields["bucket"], fields["fingerprint"], shard, fields["counts"])


def bucket_name(buckets: Buckets, bucket: int) -> str:
    """Returns the file name of the shard of `bucket`."""
    return shard_name(*buckets.name(bucket))


class BuildShard(beam.DoFn):
    """Writes the shard of one bucket, then its report: a report on disk means a shard on disk.

    Args:
        config: how examples are made.
        vocabulary: of the token ids.
        buckets: names the shards.
        output: the data directory.
        fingerprint: of the run.
        progress: where finished shards are noted.
    """

    def __init__(
        self,
        config: DataConfig,
        vocabulary: Vocabulary,
        buckets: Buckets,
        output: str,
        fingerprint: str,
        progress: ProgressLog,
    ) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._buckets = buckets
        self._output = output
        self._fingerprint = fingerprint
        self._progress = progress

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterable[str]:
        """Yields the name of the report of one bucket."""
        bucket, chunks = element
        documents, duplicates = unique_documents(list(unpack(chunks)))
        pairs = merge_pairs(
            [build_pairs(documents, self._config, self._vocabulary, copy) for copy in range(self._config.dupe_factor)]
        )
        counts = self._counts(documents, pairs) | {"duplicates": duplicates}
        name = bucket_name(self._buckets, bucket)
        shard = None
        if len(pairs):
            records = self._records(pairs)
            shard = storage.write_in(self._output, lambda directory: write_shard(directory / name, records))
        report = ShardReport(bucket, self._fingerprint, shard, counts)
        storage.write(storage.join(self._output, REPORTS, f"{Path(name).stem}.json"), report.to_json())
        for key, count in counts.items():
            beam.metrics.Metrics.counter(NAMESPACE, key).inc(count)
        self._progress.note("shards", 1)
        yield name

    def _records(self, pairs: Pairs) -> list[bytes]:
        if self._config.masking == "dynamic":
            return encode_dynamic(pairs)
        return encode_static(pairs, mask_pairs(pairs, self._config, self._vocabulary), self._config)

    def _counts(self, documents: list[TokenizedDocument], pairs: Pairs) -> dict[str, int]:
        sentences = [len(document.sentence_lengths) for document in documents]
        unknown = sum(int(np.count_nonzero(d.token_ids == self._vocabulary.unk_id)) for d in documents)
        random = int(pairs.next_sentence_labels.sum())
        return {
            "documents": len(documents),
            "single_sentence_documents": sentences.count(1),
            "sentences": sum(sentences),
            "tokens": sum(len(document.token_ids) for document in documents),
            "unknown_tokens": unknown,
            "examples": len(pairs),
            "example_tokens": len(pairs.token_ids),
            "skipped_chunks": pairs.skipped,
            "label_next": len(pairs) - random,
            "label_random": random,
        }
