"""Draws the sentences of each pair or single segment, on flat arrays of a bucket."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bert_tf.config.data import DataConfig
from bert_tf.data.randomness import integers, stream_keys, uniform
from bert_tf.text.vocabulary import Vocabulary

# Counters of the draws in a chunk's stream. Counters from TRUNCATION on are used by `build`.
_SHORT, _TARGET, _RANDOM, _SPLIT, _PARTNER, _START = range(6)
TRUNCATION = 8


@dataclass(frozen=True)
class Bucket:
    """Documents as flat arrays."""

    ids: np.ndarray  # uint64 [D], document ids
    token_ids: np.ndarray  # int32 [T]
    offsets: np.ndarray  # int64 [N+1], start of each sentence in `token_ids`, then T
    first: np.ndarray  # int64 [D+1], first sentence of each document, then N


@dataclass(frozen=True)
class Chunks:
    """Token ranges of both segments of n pairs in `Bucket.token_ids`, before truncation, sorted by key."""

    a_start: np.ndarray  # int64 [n]
    a_end: np.ndarray  # int64 [n], exclusive
    b_start: np.ndarray  # int64 [n]
    b_end: np.ndarray  # int64 [n], exclusive
    is_random: np.ndarray  # bool [n], True if the second segment is from another document
    keys: np.ndarray  # uint64 [n], keys of the pairs' random streams

    def __getitem__(self, rows: slice | np.ndarray) -> Chunks:
        return Chunks(*(getattr(self, name)[rows] for name in _CHUNK_FIELDS))

    def shifted(self, base: int) -> Chunks:
        """Returns the ranges moved by `base` tokens."""
        return dataclasses.replace(
            self,
            a_start=self.a_start + base,
            a_end=self.a_end + base,
            b_start=self.b_start + base,
            b_end=self.b_end + base,
        )


_CHUNK_FIELDS = tuple(field.name for field in dataclasses.fields(Chunks))


def merged(parts: Sequence[Chunks]) -> Chunks:
    """Returns the chunks of all `parts`, sorted by key."""
    if not parts:
        empty = np.zeros(0, np.int64)
        return Chunks(empty, empty, empty, empty, empty.astype(bool), empty.astype(np.uint64))
    chunks = Chunks(*(np.concatenate([getattr(part, name) for part in parts]) for name in _CHUNK_FIELDS))
    return chunks[np.argsort(chunks.keys, kind="stable")]


def base_key(config: DataConfig) -> np.ndarray:
    """Returns the key from which all draws for one example length are derived: uint64 scalar.

    Examples are therefore the same whether several lengths are built together or separately.
    """
    return stream_keys(config.seed, config.max_seq_length)


def sentence_keys(bucket: Bucket, config: DataConfig, copy: int) -> np.ndarray:
    """Returns a key for every sentence, derived from document id, copy and sentence number: uint64 [N]."""
    documents = np.repeat(np.arange(len(bucket.ids)), np.diff(bucket.first))
    number = np.arange(len(documents)) - bucket.first[documents]
    return stream_keys(base_key(config), bucket.ids[documents], copy, number)


def draw_pairs(bucket: Bucket, config: DataConfig, vocabulary: Vocabulary, copy: int) -> tuple[Chunks, int]:
    """Draws both segments of every pair in pass number `copy`; returns the chunks sorted by key.

    All draws of a chunk come from the stream of its first sentence, see `sentence_keys`. The number of chunks skipped
    because no second segment is available is returned as well.
    """
    bucket = _cut_lone_sentences(bucket, vocabulary.is_continuation, base_key(config), copy)
    documents = np.repeat(np.arange(len(bucket.ids)), np.diff(bucket.first))
    keys = sentence_keys(bucket, config, copy)
    targets = target_lengths(keys, config)
    random = uniform(keys, _RANDOM) < config.random_next_prob
    if len(bucket.ids) == 1:
        random[:] = False
    begin, start, middle, stop, skipped = _walk(bucket, targets, random, uniform(keys, _SPLIT))
    order = np.argsort(keys[begin], kind="stable")
    begin, start, middle, stop = (x[order] for x in (begin, start, middle, stop))
    is_random = stop < 0
    partner_start, partner_stop = _partners(
        bucket,
        documents[begin],
        keys[begin],
        targets[begin] - (bucket.offsets[middle] - bucket.offsets[start]),
    )
    chunks = Chunks(
        a_start=bucket.offsets[start],
        a_end=bucket.offsets[middle],
        b_start=bucket.offsets[np.where(is_random, partner_start, middle)],
        b_end=bucket.offsets[np.where(is_random, partner_stop, stop)],
        is_random=is_random,
        keys=keys[begin],
    )
    return chunks, skipped


def _cut_lone_sentences(bucket: Bucket, is_continuation: np.ndarray, key: np.ndarray, copy: int) -> Bucket:
    """Cuts the sentence of every one-sentence document in two, at a random word start.

    Args:
        bucket: documents of at least one sentence.
        is_continuation: bool [V], True for word pieces that continue a word.
        key: uint64 scalar; the draw depends on it, the document id and `copy`.
        copy: number of the pass.

    Returns:
        The bucket with these documents as two sentences; documents of a single word are unchanged.
    """
    lone = np.flatnonzero(np.diff(bucket.first) == 1)
    if not len(lone):
        return bucket
    begin = bucket.offsets[bucket.first[lone]]
    end = bucket.offsets[bucket.first[lone + 1]]
    words = np.cumsum(~is_continuation[bucket.token_ids])
    choices = words[end - 1] - words[begin]
    lone, begin, choices = (x[choices > 0] for x in (lone, begin, choices))
    # The counter -1 separates this stream from the streams of the sentences, which are numbered from 0.
    keys = stream_keys(key, bucket.ids[lone], copy, -1)
    cuts = np.searchsorted(words, words[begin] + 1 + integers(keys, 0, choices))
    added = np.zeros(len(bucket.first), np.int64)
    added[lone + 1] = 1
    offsets = np.sort(np.concatenate([bucket.offsets, cuts]))
    return Bucket(bucket.ids, bucket.token_ids, offsets, bucket.first + np.cumsum(added))


def target_lengths(keys: np.ndarray, config: DataConfig) -> np.ndarray:
    """Draws the target length of each chunk, without special tokens: int64 of the shape of `keys`."""
    longest = config.max_seq_length - (3 if config.next_sentence else 2)
    short = uniform(keys, _SHORT) < config.short_seq_prob
    return np.where(short, 2 + integers(keys, _TARGET, longest - 1), longest)


def _walk(
    bucket: Bucket, targets: np.ndarray, random: np.ndarray, split: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Divides the N sentences of every document into n chunks.

    Of a chunk that starts at a sentence, `targets`, int64 [N], is the target length; `random`, bool [N], is True if the
    second segment is from another document; and `split`, float64 [N] from 0 to below 1, is the relative end of the
    first segment. Returns four int64 [n] arrays of sentence numbers (start of the chunk, start and end of the first
    segment, end of the second segment or -1 if it is random) and the number of skipped chunks.
    """
    offsets, first, goals = bucket.offsets.tolist(), bucket.first.tolist(), targets.tolist()
    randoms, splits = random.tolist(), split.tolist()
    rows: list[tuple[int, int, int, int]] = []
    skipped = 0
    for low, high in pairwise(first):
        begin = low
        while begin < high:
            goal = goals[begin]
            stop = bisect_left(offsets, offsets[begin] + goal, begin + 1, high)
            after, start = stop, begin
            if randoms[begin] or high - low == 1:
                middle = begin + 1 + int(splits[begin] * (stop - begin - 1))
                after, stop = middle, -1
            else:
                if stop - begin == 1 and stop < high:
                    stop += 1
                elif stop - begin == 1:
                    start = min(max(low, bisect_right(offsets, offsets[stop] - goal) - 1), begin - 1)
                middle = start + 1 + int(splits[begin] * (stop - start - 1))
            if stop < 0 and len(first) == 2:
                skipped += 1
            else:
                rows.append((begin, start, middle, stop))
            begin = after
    begins, starts, middles, stops = np.array(rows, np.int64).reshape(-1, 4).T
    return begins, starts, middles, stops, skipped


def _partners(
    bucket: Bucket, documents: np.ndarray, keys: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws a random second segment of about `wanted` tokens from another document for every chunk.

    Returns the first sentence and the sentence after the last, int64 [n] each; undefined in a bucket of one document.
    """
    choices = max(len(bucket.ids) - 1, 1)
    partner = integers(keys, _PARTNER, choices)
    partner = np.minimum(partner + (partner >= documents), len(bucket.ids) - 1)
    low, high = bucket.first[partner], bucket.first[partner + 1]
    start = low + integers(keys, _START, high - low)
    reached = np.searchsorted(bucket.offsets, bucket.offsets[start] + np.maximum(wanted, 1))
    return start, np.minimum(reached, high)


def draw_singles(bucket: Bucket, config: DataConfig, vocabulary: Vocabulary, copy: int) -> tuple[Chunks, int]:
    """Draws the segments of every document in pass number `copy`; each pass draws different lengths.

    Returns chunks without a second segment, sorted by key, and 0, the number of skipped chunks.
    """
    bucket = cut_long_sentences(bucket, vocabulary.is_continuation, config.max_seq_length - 2)
    keys = sentence_keys(bucket, config, copy)
    goals, offsets = target_lengths(keys, config).tolist(), bucket.offsets.tolist()
    begins: list[int] = []
    stops: list[int] = []
    for low, high in pairwise(bucket.first.tolist()):
        begin = low
        while begin < high:
            stop = bisect_right(offsets, offsets[begin] + goals[begin], begin + 1, high + 1) - 1
            begins.append(begin)
            stops.append(max(stop, begin + 1))
            begin = stops[-1]
    order = np.argsort(keys[begins], kind="stable")
    first = np.array(begins, np.int64)[order]
    end = bucket.offsets[np.array(stops, np.int64)[order]]
    return Chunks(bucket.offsets[first], end, end, end, np.zeros(len(first), bool), keys[first]), 0


def cut_long_sentences(bucket: Bucket, is_continuation: np.ndarray, longest: int) -> Bucket:
    """Cuts sentences of more than `longest` tokens into several, at word starts, or within a word that is longer.

    `is_continuation`, bool [V], is True for word pieces that continue a word.
    """
    long = np.flatnonzero(np.diff(bucket.offsets) > longest)
    cuts: list[int] = []
    added = np.zeros(len(bucket.offsets), np.int64)
    for sentence in long.tolist():
        begin, end = int(bucket.offsets[sentence]), int(bucket.offsets[sentence + 1])
        while end - begin > longest:
            starts = np.flatnonzero(~is_continuation[bucket.token_ids[begin + 1 : begin + longest + 1]])
            begin += 1 + int(starts[-1]) if len(starts) else longest
            cuts.append(begin)
            added[sentence + 1] += 1
    offsets = np.sort(np.concatenate([bucket.offsets, np.array(cuts, np.int64)]))
    return Bucket(bucket.ids, bucket.token_ids, offsets, bucket.first + np.cumsum(added)[bucket.first])


def splits(lengths: np.ndarray) -> np.ndarray:
    """Returns the offsets of consecutive ranges: 0 and the running sums of their lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
