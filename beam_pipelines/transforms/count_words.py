"""Word counts. Words are shuffled in packed tables, because one Beam element per word would be too expensive.

A table has the words of one partition (a hash of the word), so no process needs all words of a corpus.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.runners.versions import SameVersionsDoFn
from beam_pipelines.sources.documents import EMPTY, RawDocument
from beam_pipelines.transforms.rejections import account
from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS

COUNTS, SUMMARY = ".counts", ".summary.json"
# The tokenizer maps longer words to [UNK], so they are not used for training.
LONGEST_WORD = 200
# Distinct words in a worker's table before it is emitted.
_WORDS_A_TABLE = 500_000
# Bytes of text per partition: for prose at most about 100,000 distinct words and a few dozen megabytes.
_PARTITION_BYTES = 256 << 20
_FEWEST_PARTITIONS, _MOST_PARTITIONS = 16, 1024
# Weights are rounded to four decimals.
_WEIGHT_UNITS = 10_000


def partition_count(text_bytes: int) -> int:
    """Returns the number of partitions for a corpus of `text_bytes`."""
    return min(_MOST_PARTITIONS, max(_FEWEST_PARTITIONS, text_bytes // _PARTITION_BYTES))


def whole_weights(weights: Sequence[float]) -> tuple[tuple[int, ...], int]:
    """Converts weights of inputs to integer multiples of 1 / unit, so that counts are exact integers.

    Weights are rounded to four decimals. Returns the multiples, at least 1, and the unit, which is 1 if all weights are
    integers.
    """
    multiples = [max(1, round(weight * _WEIGHT_UNITS)) for weight in weights]
    common = int(np.gcd.reduce([*multiples, _WEIGHT_UNITS]))
    return tuple(multiple // common for multiple in multiples), _WEIGHT_UNITS // common


def pack_counts(counts: Mapping[bytes, int], occurrences: int) -> bytes:
    """Packs a table: total occurrences before weights and filters, number of distinct words, counts, words in UTF-8.

    Words are sorted by descending weighted count, then by bytes.
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))
    head = np.array([occurrences, len(words), *(counts[word] for word in words)], "<i8")
    return head.tobytes() + b"\n".join(words)


def unpack_counts(table: bytes) -> tuple[dict[bytes, int], int]:
    """Unpacks a table of `pack_counts`; returns counts in table order, and total occurrences."""
    occurrences, distinct = np.frombuffer(table, "<i8", 2).tolist()
    counts = np.frombuffer(table, "<i8", distinct, 16).tolist()
    words = table[16 + 8 * distinct :].split(b"\n") if distinct else []
    return dict(zip(words, counts, strict=True)), occurrences


@dataclasses.dataclass(frozen=True)
class PartitionSummary:
    """Summary of a partition, read by the driver before the words."""

    occurrences: int  # of all words
    distinct: int  # number of distinct words
    weight: int  # weighted count of all words
    characters: dict[str, int]  # weighted count of one-character pieces (`a` begins words, `##a` continues them)
    histogram: dict[int, int]  # number of kept words by weighted count

    def to_json(self) -> bytes:
        """Returns the summary as JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> PartitionSummary:
        """Reads a summary written by `to_json`."""
        fields = json.loads(content)
        fields["histogram"] = {int(count): words for count, words in fields["histogram"].items()}
        return cls(**fields)


@dataclasses.dataclass(eq=False, repr=False)
class CountWords(SameVersionsDoFn):
    """Counts normalized words over a bundle, with the integer weight of each input.

    Main output: (partition, packed table). Outputs `TALLY` and `DEAD_LETTERS` as in TokenizeDocuments.
    """

    lowercase: bool
    partitions: int
    weights: Sequence[int]

    def setup(self) -> None:
        """Checks the versions and builds the tokenizer."""
        super().setup()
        # Words do not depend on the vocabulary, but a vocabulary without any plain piece cannot be compiled.
        self._tokenizer = shared_tokenizer((*SPECIAL_TOKENS, "a"), self.lowercase)

    def start_bundle(self) -> None:
        """Starts an empty table."""
        self._counts: Counter[bytes] = Counter()
        self._occurrences = 0

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Counts one batch."""
        good = [document for document in batch if not document.reason]
        left_out = [(document, document.reason) for document in batch if document.reason]
        for weight, documents in itertools.groupby(good, lambda document: self.weights[document.source]):
            left_out += [(document, EMPTY) for document in self._count(list(documents), weight)]
        yield from account(batch, left_out)
        if len(self._counts) > _WORDS_A_TABLE:
            yield from self._tables()

    def finish_bundle(self) -> Iterator[Any]:
        """Emits the remaining counts."""
        for table in self._tables():
            yield GlobalWindows.windowed_value(table)

    def _count(self, documents: list[RawDocument], weight: int) -> list[RawDocument]:
        """Counts the words of documents of one weight; returns documents without words."""
        words = self._tokenizer.words([paragraph for document in documents for paragraph in document.paragraphs])
        self._occurrences += len(words.values)
        if weight == 1:
            self._counts.update(words.values.tolist())
        else:
            word_counts = Counter(words.values.tolist())
            self._counts.update({word: weight * count for word, count in word_counts.items()})
        ends = np.cumsum([len(document.paragraphs) for document in documents], dtype=np.int64)
        words_per_document = np.diff(words.row_splits[np.concatenate([[0], ends])]).tolist()
        return [document for document, count in zip(documents, words_per_document, strict=True) if not count]

    def _tables(self) -> Iterator[tuple[int, bytes]]:
        parts: dict[int, dict[bytes, int]] = defaultdict(dict)
        for word, count in self._counts.items():
            parts[zlib.crc32(word) % self.partitions][word] = count
        occurrences = self._occurrences
        self._counts, self._occurrences = Counter(), 0
        for partition, counts in sorted(parts.items()):
            # Total occurrences are known only for all partitions together, so the first table carries them.
            yield partition, pack_counts(counts, occurrences)
            occurrences = 0


def merge_counts(element: tuple[int, Iterable[bytes]], output: RunOutput, min_count: int) -> str:
    """Merges the tables of one partition and writes the result and its summary, `00000.counts` and `.summary.json`.

    Words with a weighted count below `min_count` count only in the summary's totals. Returns the path of the counts.
    """
    partition, tables = element
    total: Counter[bytes] = Counter()
    occurrences = 0
    for table in tables:
        counts, table_occurrences = unpack_counts(table)
        total.update(counts)
        occurrences += table_occurrences
    kept = {word: count for word, count in total.items() if count >= min_count}
    path = storage.join(output.directory, f"{partition:05d}{COUNTS}")
    output.write(path, pack_counts(kept, occurrences))
    summary = PartitionSummary(
        occurrences, len(total), sum(total.values()), _characters(total), dict(Counter(kept.values()))
    )
    output.write(path.removesuffix(COUNTS) + SUMMARY, summary.to_json())
    return path


def _characters(counts: Mapping[bytes, int]) -> dict[str, int]:
    first: Counter[str] = Counter()
    later: Counter[str] = Counter()
    for word, count in counts.items():
        text = word.decode("utf-8")
        if len(text) <= LONGEST_WORD:
            first[text[0]] += count
            for character in text[1:]:
                later[character] += count
    return dict(first) | {CONTINUATION + character: count for character, count in later.items()}
