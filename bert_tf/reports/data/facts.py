"""Facts about a data directory: statistics, samples and warnings.

`words` and `page` show the same facts as text and as an HTML page.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.examples.sample_examples import KEPT, MASKED, REPLACED, Example, read_examples
from bert_tf.data.manifest import Manifest, Source, open_data
from bert_tf.data.masking.tokens import prediction_counts
from bert_tf.data.schema import SPLITS
from bert_tf.data.tfrecord.shards import read_shard
from bert_tf.entry.amounts import plural
from bert_tf.reports.text import share
from bert_tf.storage.mirrors import Mirror, data_path

# Thresholds of the warnings.
UNK_RATE, SINGLE_SENTENCE, LOW_FILL, LEFT_OUT = 0.01, 0.05, 0.6, 0.2
# With fewer held-out examples, an accuracy of 50 % has a standard error of more than 3.5 points.
FEWEST_HELD_OUT = 200
# Largest validation fraction to suggest.
_MOST_HELD_OUT = 0.2
# Random deviations exceed this once in 16,000 runs (two-sided, normal distribution).
SIGMAS = 4.0
# Descriptions of the reasons for leaving out documents.
REASONS = {
    "redirect": "pages that redirect to another page",
    "namespace": "pages outside the article namespace",
    "disambiguation": "disambiguation pages",
    "duplicate": "exact duplicates of other documents",
    "near_duplicate": "near-duplicates of other documents",
    "not_drawn": "documents not sampled because of their weight",
    "no_passages": "pages without a passage",
    "not_wikitext": "pages in other markup",
    "over_long": "documents longer than --max_document_bytes",
    "empty": "documents without text",
    "undecodable": "documents that are not UTF-8",
    "malformed": "records that do not follow their format",
    "language": "documents in another language",
    "too_short": "documents with fewer words than --min_words",
    "symbols": "documents with more symbols than --max_symbol_ratio",
    "repeated_lines": "documents with more repeated lines than --max_repeated_lines",
}


@dataclass(frozen=True)
class LabelBalance:
    """Balance of the labels: pairs whose second segment follows (`next`), or is of another document (`random`).

    `expected` is the expected share of `random`, `sigma` its standard deviation for as many independent draws.
    """

    next: int
    random: int
    expected: float
    sigma: float

    @property
    def share(self) -> float:
        """The share of `random`."""
        return self.random / max(self.next + self.random, 1)

    @property
    def deviation(self) -> float:
        """The signed deviation from the expected share, in standard deviations."""
        distance = self.share - self.expected
        if not self.sigma:
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / self.sigma


@dataclass(frozen=True)
class MaskShares:
    """Masking of the predicted positions in the sample examples: replaced by [MASK] or a random piece, or kept.

    `tokens` counts all positions, including special tokens. `expected` is the number of predicted positions by length,
    masking probability and upper bound.
    """

    tokens: int
    masked: int
    random: int
    kept: int
    expected: int

    @property
    def predicted(self) -> int:
        """The number of predicted positions."""
        return self.masked + self.random + self.kept


@dataclass(frozen=True)
class Quantiles:
    """Median, 95th percentile and maximum of lengths."""

    p50: int
    p95: int
    max: int

    def __str__(self) -> str:
        """Returns the quantiles as a sentence."""
        return f"Half have at most {self.p50:,} tokens, 95% at most {self.p95:,}, all at most {self.max:,}."


@dataclass(frozen=True)
class DataReport:
    """All facts about one data directory, and the sample examples.

    `balance` is None if there are no pairs, lengths (in tokens) if the manifest has no histogram. Lengths of documents
    are rounded up to the end of their power-of-two bin. Each warning is one sentence.
    """

    manifest: Manifest
    balance: LabelBalance | None
    masks: MaskShares
    example_lengths: Quantiles | None
    document_lengths: Quantiles | None
    examples: tuple[Example, ...]
    warnings: tuple[str, ...]

    @property
    def documents_read(self) -> int:
        """The number of documents in the input."""
        counts = self.manifest.counts
        return counts.get("documents_read", counts.get("documents", 0) + sum(self.manifest.rejected.values()))

    @property
    def total_examples(self) -> int:
        """The number of examples in all splits."""
        return sum(map(self.manifest.examples, SPLITS))

    @property
    def total_bytes(self) -> int:
        """The size of all shards in bytes."""
        return sum(shard.bytes for shards in self.manifest.shards.values() for shard in shards)

    @property
    def full_examples(self) -> int:
        """The number of examples without padding."""
        return sum(self.manifest.histograms.get("example_lengths", [])[self.manifest.config.max_seq_length :])

    @property
    def left_out(self) -> list[tuple[str, int]]:
        """The reasons for leaving out documents and their counts, the most frequent first."""
        return sorted(self.manifest.rejected.items(), key=lambda item: (-item[1], item[0]))

    @property
    def mask_rows(self) -> list[tuple[str, int, float]]:
        """Name, count in the sample examples and configured share of each kind of mask."""
        config, masks = self.manifest.config, self.masks
        return [
            ("[MASK]", masks.masked, config.mask_share),
            ("random", masks.random, config.random_share),
            ("kept", masks.kept, 1 - config.mask_share - config.random_share),
        ]

    def example_bins(self, bins: int) -> list[tuple[int, int, int]]:
        """Returns (minimum tokens, maximum tokens, examples) for at most `bins` length ranges of equal width."""
        counts, longest = self.manifest.histograms.get("example_lengths", []), self.manifest.config.max_seq_length
        width = -(-longest // bins)
        edges = [(begin, min(begin + width - 1, longest)) for begin in range(1, longest + 1, width)]
        return [(begin, end, sum(counts[begin : end + 1])) for begin, end in edges]

    def document_bins(self) -> list[tuple[int, int, int]]:
        """Returns (minimum tokens, maximum tokens, documents) for each power-of-two length range."""
        counts = self.manifest.histograms.get("document_lengths", [])
        powers = [power for power, count in enumerate(counts) if count]
        shown = range(powers[0], powers[-1] + 1) if powers else ()
        return [(2**power, 2 ** (power + 1) - 1, counts[power]) for power in shown]

    def summary(self) -> dict[str, Any]:
        """Returns the statistics as JSON values, without the examples."""
        manifest = self.manifest
        lengths = {"example_lengths": self.example_lengths, "document_lengths": self.document_lengths}
        return {
            "examples": {split: manifest.examples(split) for split in manifest.shards},
            "shards": {split: len(shards) for split, shards in manifest.shards.items()},
            "bytes": self.total_bytes,
            "counts": manifest.counts,
            "rejected": manifest.rejected,
            "sources": [dataclasses.asdict(source) for source in manifest.sources],
            "labels": manifest.label_histogram,
            "unk_rate": manifest.unk_rate,
            "fill": manifest.fill,
            "histograms": {name: dataclasses.asdict(q) for name, q in lengths.items() if q},
            "masks": dataclasses.asdict(self.masks),
            "vocabulary_size": manifest.vocabulary_size,
            "config": dataclasses.asdict(manifest.config),
            "versions": manifest.versions,
            "warnings": list(self.warnings),
        }


def describe_data(directory: str | Path, checksums: bool = False) -> DataReport:
    """Collects the facts about a data directory from the manifest, the vocabulary and the first records of shards.

    `checksums` also compares the SHA-256 of every shard; of data on a store, that of the shards that are read. Raises
    ValueError, with the file, for damaged data.
    """
    folder = data_path(directory)
    manifest, vocabulary = open_data(folder, checksums=checksums)
    mirror, shards = Mirror.at(folder), {shard.name: shard for shard in manifest.all_shards}

    def records(name: str) -> Iterator[bytes]:
        return read_shard(mirror.fetch(shards[name]) if mirror else folder / name)

    return describe(manifest, read_examples(records, manifest, vocabulary))


def describe(manifest: Manifest, examples: Sequence[Example]) -> DataReport:
    """Builds the report from a manifest and `examples` of its data."""
    balance = _label_balance(manifest)
    document_bins = manifest.histograms.get("document_lengths", [])
    documents = _quantiles(document_bins)
    return DataReport(
        manifest=manifest,
        balance=balance,
        masks=_mask_shares(examples, manifest.config),
        example_lengths=_quantiles(manifest.histograms.get("example_lengths", [])),
        document_lengths=documents and Quantiles(*(2 ** (q + 1) - 1 for q in dataclasses.astuple(documents))),
        examples=tuple(examples),
        warnings=tuple(_warnings(manifest, balance)),
    )


def headline(report: DataReport) -> tuple[str, str]:
    """Returns a title and a sentence that describe the data."""
    manifest, config = report.manifest, report.manifest.config
    return (
        f"{report.total_examples:,} examples of up to {config.max_seq_length:,} tokens",
        f"{'Sentence pairs' if config.next_sentence else 'Single segments'} with {config.masking} masks, "
        f"{'uncased' if config.lowercase else 'cased'}, {manifest.vocabulary_size:,} word pieces, "
        f"{plural(len(manifest.sources), 'source')}, seed {config.seed}.",
    )


def _label_balance(manifest: Manifest) -> LabelBalance | None:
    labels, config = manifest.label_histogram, manifest.config
    total = sum(labels.values())
    if not config.next_sentence or not total:
        return None
    expected = config.random_next_prob
    sigma = math.sqrt(expected * (1 - expected) / total)
    return LabelBalance(labels.get("next", 0), labels.get("random", 0), expected, sigma)


def _mask_shares(examples: Sequence[Example], config: DataConfig) -> MaskShares:
    kinds = Counter(token.fate for example in examples for token in example.tokens)
    lengths = [len(example.tokens) for example in examples]
    expected = int(prediction_counts(config)[lengths].sum()) if lengths else 0
    return MaskShares(sum(lengths), kinds[MASKED], kinds[REPLACED], kinds[KEPT], expected)


def _quantiles(counts: Sequence[int]) -> Quantiles | None:
    ends = np.cumsum(counts)
    if not len(ends) or not ends[-1]:
        return None
    half, most, last = (int(np.searchsorted(ends, math.ceil(part * int(ends[-1])))) for part in (0.5, 0.95, 1.0))
    return Quantiles(half, most, last)


def _warnings(manifest: Manifest, balance: LabelBalance | None) -> Iterator[str]:
    counts = manifest.counts
    if manifest.unk_rate > UNK_RATE:
        yield (
            f"{manifest.unk_rate:.1%} of all tokens are [UNK], more than {UNK_RATE:.0%}: "
            "the vocabulary does not match the text (different language, case or script?)."
        )
    lone = share(counts.get("single_sentence_documents", 0), counts.get("documents", 0))
    if lone > SINGLE_SENTENCE:
        yield (
            f"{lone:.1%} of the documents are a single sentence, more than {SINGLE_SENTENCE:.0%}. Check for blank "
            "lines between paragraphs and the language of sentence splitting."
        )
    if balance and abs(balance.deviation) > SIGMAS:
        yield (
            f"{balance.share:.2%} of the pairs are random instead of {balance.expected:.2%}, a difference of more than "
            f"{SIGMAS:.0f} standard deviations. Check for buckets of few documents."
        )
    if manifest.fill < LOW_FILL and manifest.counts.get("examples"):
        yield (
            f"An example fills {manifest.fill:.1%} of its length on average, less than {LOW_FILL:.0%}: "
            "the documents are short for this `max_seq_length`."
        )
    yield from _held_out_warnings(manifest)
    for source in manifest.sources:
        yield from _source_warnings(source)
    for reason, count in sorted(manifest.rejected.items(), key=lambda item: -item[1]):
        read = counts.get("documents_read", 0)
        if share(count, read) > LEFT_OUT:
            words = REASONS.get(reason, "")
            yield f"{share(count, read):.1%} of the documents read were left out as {reason}{words and f' ({words})'}."


def _held_out_warnings(manifest: Manifest) -> Iterator[str]:
    held_out, total = manifest.examples("validation"), sum(map(manifest.examples, SPLITS))
    if not manifest.config.validation_fraction or held_out >= FEWEST_HELD_OUT:
        return
    # 10 % more than needed, because held-out documents are drawn at random.
    shares = [FEWEST_HELD_OUT / max(total, 1)]
    if held_out:
        shares.append(manifest.config.validation_fraction * FEWEST_HELD_OUT / held_out)
    enough = math.ceil(110 * max(shares)) / 100
    advice = f"use `--validation_fraction {enough:.2f}` or more text" if enough <= _MOST_HELD_OUT else "use more text"
    yield (
        f"{plural(held_out, 'example')} of {total:,} are held out, fewer than {FEWEST_HELD_OUT}, so metrics have a "
        f"large random error; {advice}."
    )


def _source_warnings(source: Source) -> Iterator[str]:
    if not source.documents:
        read = f"all {source.documents_read:,} documents were left out" if source.documents_read else "none was read"
        yield f"The source {source.input} contributed no documents: {read}."
