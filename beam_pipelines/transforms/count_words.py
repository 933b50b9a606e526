"""How often every word occurs. Words travel in packed tables: an element for each word would cost more than it.

A table holds the words of one partition (a hash of the word), so that no process ever sees all words of a corpus.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.sources.documents import EMPTY, RawDocument
from beam_pipelines.transforms.rejections import account
from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS

COUNTS, SUMMARY = ".counts", ".summary.json"
# The tokenizer gives [UNK] for longer words, so they can teach nothing.
LONGEST_WORD = 200
# Distinct words a worker holds before it passes its table on.
_WORDS_A_TABLE = 500_000
# Text counted in one partition: at most some 100,000 distinct words for prose, a few dozen megabytes.
_PARTITION_BYTES = 256 << 20
_FEWEST_PARTITIONS, _MOST_PARTITIONS = 16, 1024
# Weights count to four decimals.
_WEIGHT_UNITS = 10_000


def partition_count(text_bytes: int) -> int:
    """Returns the number of partitions for a corpus of `text_bytes`."""
    return min(_MOST_PARTITIONS, max(_FEWEST_PARTITIONS, text_bytes // _PARTITION_BYTES))


def whole_weights(weights: Sequence[float]) -> tuple[tuple[int, ...], int]:
    """Returns weights of inputs as whole multiples of 1 / unit, and the unit: counts stay exact integers.

    Args:
        weights: positive; they count to four decimals.

    Returns:
        The multiples, at least 1, and the unit, 1 where all weights are whole.
    """
    multiples = [max(1, round(weight * _WEIGHT_UNITS)) for weight in weights]
    common = int(np.gcd.reduce([*multiples, _WEIGHT_UNITS]))
    return tuple(multiple // common for multiple in multiples), _WEIGHT_UNITS // common


def pack_counts(counts: Mapping[bytes, int], occurrences: int) -> bytes:
    """Returns a table as bytes: occurrences before any weight or filter, distinct words, counts, words in UTF-8.

    The most frequent words come first, those of one count by their bytes.
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))
    head = np.array([occurrences, len(words), *(counts[word] for word in words)], "<i8")
    return head.tobytes() + b"\n".join(words)


def unpack_counts(table: bytes) -> tuple[dict[bytes, int], int]:
    """Returns what `pack_counts` was given, in the order of the table."""
    occurrences, distinct = np.frombuffer(table, "<i8", 2).tolist()
    counts = np.frombuffer(table, "<i8", distinct, 16).tolist()
    words = table[16 + 8 * distinct :].split(b"\n") if distinct else []
    return dict(zip(words, counts, strict=True)), occurrences


@dataclasses.dataclass(frozen=True)
class PartitionSummary:
    """What the driver has to know of a partition before it reads its words.

    Args:
        occurrences: words, as often as they occur.
        distinct: different words.
        weight: weighted count of all words.
        characters: one-character pieces (`a` begins words, `##a` continues them) to their weighted occurrences.
        histogram: weighted count to the number of words with it, of the words that were kept.
    """

    occurrences: int
    distinct: int
    weight: int
    characters: dict[str, int]
    histogram: dict[int, int]

    def to_json(self) -> bytes:
        """Returns the summary as JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> PartitionSummary:
        """Reads what `to_json` wrote."""
        fields = json.loads(content)
        fields["histogram"] = {int(count): words for count, words in fields["histogram"].items()}
        return cls(**fields)


class CountWords(beam.DoFn):
    """Counts normalized words over a bundle.

    Main output: (partition, packed table). Outputs `TALLY` and `DEAD_LETTERS` as in TokenizeDocuments.

    Args:
        lowercase: as the tokenizer that will use the vocabulary.
        partitions: number of partitions.
        weights: what a word of each input counts, see `whole_weights`.
    """

    def __init__(self, lowercase: bool, partitions: int, weights: Sequence[int]) -> None:
        self._lowercase = lowercase
        self._partitions = partitions
        self._weights = tuple(weights)

    def setup(self) -> None:
        """Builds the tokenizer."""
        # Words do not depend on the vocabulary, but one without any plain piece cannot be compiled.
        self._tokenizer = shared_tokenizer((*SPECIAL_TOKENS, "a"), self._lowercase)

    def start_bundle(self) -> None:
        """Begins an empty table."""
        self._counts: Counter[bytes] = Counter()
        self._occurrences = 0

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Counts one batch."""
        good = [document for document in batch if not document.reason]
        left_out = [(document, document.reason) for document in batch if document.reason]
        for weight, documents in itertools.groupby(good, lambda document: self._weights[document.source]):
            left_out += [(document, EMPTY) for document in self._count(list(documents), weight)]
        yield from account(batch, left_out)
        if len(self._counts) > _WORDS_A_TABLE:
            yield from self._tables()

    def finish_bundle(self) -> Iterator[Any]:
        """Passes on what is left."""
        for table in self._tables():
            yield GlobalWindows.windowed_value(table)

    def _count(self, documents: list[RawDocument], weight: int) -> list[RawDocument]:
        """Counts documents of one weight; returns those without a word."""
        words = self._tokenizer.words([paragraph for document in documents for paragraph in document.paragraphs])
        self._occurrences += len(words.values)
        if weight == 1:
            self._counts.update(words.values.tolist())
        else:
            own = Counter(words.values.tolist())
            self._counts.update({word: weight * count for word, count in own.items()})
        ends = np.cumsum([len(document.paragraphs) for document in documents], dtype=np.int64)
        found = np.diff(words.row_splits[np.concatenate([[0], ends])]).tolist()
        return [document for document, count in zip(documents, found, strict=True) if not count]

    def _tables(self) -> Iterator[tuple[int, bytes]]:
        parts: dict[int, dict[bytes, int]] = defaultdict(dict)
        for word, count in self._counts.items():
            parts[zlib.crc32(word) % self._partitions][word] = count
        occurrences = self._occurrences
        self._counts, self._occurrences = Counter(), 0
        for partition, counts in sorted(parts.items()):
            # The words of a table as often as they occur are known for all partitions together only.
            yield partition, pack_counts(counts, occurrences)
            occurrences = 0


class MergeCounts(beam.DoFn):
    """Adds up the tables of one partition and writes the sum as a file, with a summary beside it.

    Args:
        output: writes the files, `00000.counts`, `00000.summary.json` and so on, to its directory.
        min_count: words with a smaller (weighted) count are left out, but for the summary's totals.
    """

    def __init__(self, output: RunOutput, min_count: int) -> None:
        self._output = output
        self._min_count = min_count

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterable[str]:
        """Yields the path of the file of one partition."""
        partition, tables = element
        total: Counter[bytes] = Counter()
        occurrences = 0
        for table in tables:
            counts, own = unpack_counts(table)
            total.update(counts)
            occurrences += own
        kept = {word: count for word, count in total.items() if count >= self._min_count}
        path = storage.join(self._output.directory, f"{partition:05d}{COUNTS}")
        self._output.write(path, pack_counts(kept, occurrences))
        summary = PartitionSummary(
            occurrences, len(total), sum(total.values()), _characters(total), dict(Counter(kept.values()))
        )
        self._output.write(path.removesuffix(COUNTS) + SUMMARY, summary.to_json())
        yield path


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
