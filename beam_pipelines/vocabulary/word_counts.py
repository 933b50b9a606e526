"""Reads the word counts written by `merge_counts`, one partition in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from beam_pipelines.output import storage
from beam_pipelines.transforms.count_words import COUNTS, SUMMARY, PartitionSummary, unpack_counts


class WordCounts:
    """Word counts of a corpus.

    `occurrences` counts all words, `distinct` distinct words; `weight` is the weighted count of all words, and
    `characters` that of one-character pieces (`a`, `##a`).
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._names = sorted(name for name in storage.names_in(directory) if name.endswith(COUNTS))
        self.occurrences = self.distinct = self.weight = 0
        self.characters: Counter[str] = Counter()
        self._histogram: Counter[int] = Counter()
        for name in self._names:
            content = self._read(name.removesuffix(COUNTS) + SUMMARY)
            summary = PartitionSummary.from_json(content)
            self.occurrences += summary.occurrences
            self.distinct += summary.distinct
            self.weight += summary.weight
            self.characters.update(summary.characters)
            self._histogram.update(summary.histogram)

    def tables(self) -> Iterator[dict[bytes, int]]:
        """Yields the kept words of each partition with their weighted counts, most frequent first."""
        for name in self._names:
            yield unpack_counts(self._read(name))[0]

    def most_frequent(self, limit: int) -> dict[str, int]:
        """Returns the `limit` words with the highest weighted counts; ties are broken by bytes."""
        least = self._least_count(limit)
        kept: dict[bytes, int] = {}
        ties: list[bytes] = []
        room = limit - sum(words for count, words in self._histogram.items() if count > least)
        for table in self.tables():
            for word, count in table.items():
                if count < least:
                    break
                if count > least:
                    kept[word] = count
                else:
                    ties.append(word)
            ties = sorted(ties)[:room]
        kept |= dict.fromkeys(ties, least)
        return {word.decode("utf-8"): count for word, count in kept.items()}

    def _least_count(self, limit: int) -> int:
        """Returns the count of the word at rank `limit`, or the smallest count."""
        words = 0
        least = 0
        for least in sorted(self._histogram, reverse=True):
            words += self._histogram[least]
            if words >= limit:
                break
        return least

    def _read(self, name: str) -> bytes:
        path = storage.join(self._directory, name)
        content = storage.read(path)
        if content is None:
            raise FileNotFoundError(f"{path}: file not found; another run may have deleted it. Run the command again.")
        return content
