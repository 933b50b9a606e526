"""Manifests of a finished run, summed from the reports of its buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from beam_pipelines.run_plan import RunPlan
from beam_pipelines.transforms.build_shards import ShardReport
from beam_pipelines.transforms.rejections import Tally
from bert_tf.config import DataConfig
from bert_tf.data.manifest import Manifest, Source, library_versions
from bert_tf.data.schema import SPLITS
from bert_tf.data.tfrecord.shards import ShardInfo
from bert_tf.text.build_table import UNICODE_VERSION


@dataclass(frozen=True)
class RunSummary:
    """Sums the reports of a run, one for each non-empty bucket, and the tally of the documents read."""

    plan: RunPlan
    tally: Tally
    reports: Sequence[ShardReport]

    def manifest(self, number: int, config: DataConfig) -> Manifest:
        """Returns the manifest of the examples of one length, the one at index `number` of the reports."""
        lengths = [report.lengths[number] for report in self.reports]
        counts: Counter[str] = Counter(documents_read=self.tally.read(), documents=0, tokens=0, examples=0)
        shards: dict[str, list[ShardInfo]] = {split: [] for split in SPLITS}
        for report, length in zip(self.reports, lengths, strict=True):
            counts.update(report.counts)
            counts.update(length.counts)
            if length.shard:
                shards[self.plan.buckets.name(report.bucket)[0]].append(length.shard)
        sources = self.sources()
        labels = {name: counts.pop(f"label_{name}", 0) for name in ("next", "random")}
        return Manifest(
            config=config,
            vocabulary_sha256=self.plan.vocabulary.fingerprint,
            vocabulary_size=len(self.plan.vocabulary),
            shards={split: tuple(infos) for split, infos in shards.items()},
            label_histogram=labels if config.next_sentence else {},
            rejected=dict(sorted(sum((Counter(source.left_out) for source in sources), Counter()).items())),
            sources=sources,
            histograms={
                "example_lengths": _sum_histograms(length.example_lengths for length in lengths),
                "document_lengths": _sum_histograms(report.document_lengths for report in self.reports),
            },
            unk_rate=counts["unknown_tokens"] / max(counts["tokens"], 1),
            fill=counts["example_tokens"] / max(counts["examples"] * config.max_seq_length, 1),
            counts={name: int(count) for name, count in sorted(counts.items())},
            versions=library_versions(),
            unicode_version=UNICODE_VERSION,
        )

    def sources(self) -> tuple[Source, ...]:
        """Returns the document counts of every input."""
        sources = []
        for number, source in enumerate(self.plan.corpus.inputs):
            counts: Counter[str] = Counter()
            for report in self.reports:
                counts.update(report.sources.get(str(number), {}))
            documents, tokens = counts.pop("documents", 0), counts.pop("tokens", 0)
            files = self.plan.corpus.files_of(number)
            sources.append(
                Source(
                    input=source.pattern,
                    format=source.format,
                    language=source.language,
                    weight=source.weight,
                    files=len(files),
                    bytes=sum(file.size for file in files),
                    documents_read=self.tally.read(number),
                    documents=documents,
                    tokens=tokens,
                    left_out=dict(sorted((counts + self.tally.left_out(number)).items())),
                )
            )
        return tuple(sources)


def _sum_histograms(histograms: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*histograms, fillvalue=0)]
