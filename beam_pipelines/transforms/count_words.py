"""How often every word occurs. Words travel in packed tables: an element for each word would cost more than it."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_pipelines import storage
from beam_pipelines.sources.documents import RawDocument
from beam_pipelines.transforms.rejections import EMPTY, dead_letters, documents_read
from beam_pipelines.transforms.tokenize import shared_tokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS

PARTITIONS = 16
# Distinct words a worker holds before it passes its table on.
_WORDS_A_TABLE = 500_000


def pack_counts(counts: dict[bytes, int], occurrences: int) -> bytes:
    """Returns a table as bytes: occurrences before any filter, distinct words, counts, words in UTF-8; sorted."""
    words = sorted(counts)
    head = np.array([occurrences, len(words), *(counts[word] for word in words)], "<i8")
    return head.tobytes() + b"\n".join(words)


def unpack_counts(table: bytes) -> tuple[Counter[bytes], int]:
    """Returns what `pack_counts` was given."""
    occurrences, distinct = np.frombuffer(table, "<i8", 2).tolist()
    counts = np.frombuffer(table, "<i8", distinct, 16).tolist()
    words = table[16 + 8 * distinct :].split(b"\n") if distinct else []
    return Counter(dict(zip(words, counts, strict=True))), occurrences


class CountWords(beam.DoFn):
    """Counts normalized words over a bundle.

    Main output: (partition, packed table). Outputs `read` and `rejected` as in TokenizeDocuments.

    Args:
        lowercase: as the tokenizer that will use the vocabulary.
    """

    def __init__(self, lowercase: bool) -> None:
        self._lowercase = lowercase

    def setup(self) -> None:
        """Builds the tokenizer."""
        # Words do not depend on the vocabulary, but one without any plain piece cannot be compiled.
        self._tokenizer = shared_tokenizer((*SPECIAL_TOKENS, "a"), self._lowercase)

    def start_bundle(self) -> None:
        """Begins an empty table."""
        self._counts: Counter[bytes] = Counter()

    def process(self, batch: list[RawDocument]) -> Iterable[tuple[int, bytes]]:
        """Counts one batch."""
        yield documents_read(batch)
        good = [document for document in batch if not document.reason]
        words = self._tokenizer.words([paragraph for document in good for paragraph in document.paragraphs])
        self._counts.update(words.values.tolist())
        rejected = [(document, document.reason) for document in batch if document.reason]
        ends = np.cumsum([len(document.paragraphs) for document in good], dtype=np.int64)
        found = np.diff(words.row_splits[np.concatenate([[0], ends])]).tolist()
        rejected += [(document, EMPTY) for document, count in zip(good, found, strict=True) if not count]
        yield from dead_letters(rejected)
        if len(self._counts) > _WORDS_A_TABLE:
            yield from self._tables()

    def finish_bundle(self) -> Iterator[Any]:
        """Passes on what is left."""
        for table in self._tables():
            yield GlobalWindows.windowed_value(table)

    def _tables(self) -> Iterator[tuple[int, bytes]]:
        parts: dict[int, dict[bytes, int]] = defaultdict(dict)
        for word, count in self._counts.items():
            parts[zlib.crc32(word) % PARTITIONS][word] = count
        self._counts = Counter()
        for partition, counts in sorted(parts.items()):
            yield partition, pack_counts(counts, sum(counts.values()))


class MergeCounts(beam.DoFn):
    """Adds up the tables of one partition and writes the sum as a file.

    Args:
        directory: where the files go, `00000.counts` and so on.
        min_count: rarer words are left out.
    """

    def __init__(self, directory: str, min_count: int) -> None:
        self._directory = directory
        self._min_count = min_count

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterable[str]:
        """Yields the path of the file of one partition."""
        partition, tables = element
        total: Counter[bytes] = Counter()
        for table in tables:
            total.update(unpack_counts(table)[0])
        kept = {word: count for word, count in total.items() if count >= self._min_count}
        path = storage.join(self._directory, f"{partition:05d}.counts")
        storage.write(path, pack_counts(kept, sum(total.values())))
        yield path
