"""MinHash signatures of documents, their LSH bands, and near-duplicate search within one partition.

Similarity is the Jaccard similarity of two documents' shingle sets: all runs of five words (see `characters`; in
Chinese a word is a character), lower-cased, without punctuation. It is estimated from 128 minimum hashes (Broder, "On
the resemblance and containment of documents", 1997) with two bits kept of each (Li and König, "b-Bit Minwise Hashing",
WWW 2010): at a similarity of 0.8 the standard error is 0.042, with all bits 0.035. Only documents that agree in a band
of the hashes are compared (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", 3.4).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from beam_pipelines.cleaning.characters import find_words, in_slices, read_characters
from bert_tf.data.examples.build import document_id, ranges
from bert_tf.data.randomness import mix64, random_bits, stream_keys

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_WORDS = 5
PERMUTATIONS = 128
BITS = 2
# One row per band and document: hash of the band, document id, low bits of all minimum hashes.
ROW = np.dtype([("band", "<u8"), ("id", "<i8"), ("signature", "<u8", (PERMUTATIONS * BITS // 64,))])
# Documents of a band, by smallest id, that the others are compared with. This bounds the work if thousands of
# documents agree in a band; they are then near-duplicates of the first few.
REPRESENTATIVES = 16

# Key of the permutation stream among all streams of the seed.
_PERMUTATION_STREAM = 0x6D696E68617368
# Weights of false positives and false negatives when bands are chosen: a false positive costs one comparison, a false
# negative cannot be repaired.
_BAND_WEIGHTS = (0.02, 0.98)
# Shingles hashed together, 128 hashes each: half a megabyte, which stays in cache.
_SHINGLES_AT_ONCE = 1024
# From the fractional part of the square root of 3; odd, so that the multiplication is invertible.
_SHINGLE_MULTIPLIER = np.uint64(0xBB67AE8584CAA73B)
_OFFSET_SHIFT = np.uint64(21)  # code points have 21 bits


@functools.lru_cache(maxsize=8)
def band_shape(threshold: float) -> tuple[int, int]:
    """Returns the number of bands and the hashes per band, optimal for `threshold` by datasketch's integrals."""
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS, weights=_BAND_WEIGHTS)
    return index.b, index.r


def sign_documents(documents: Sequence[Sequence[str]], seed: int, bands: int, rows: int) -> np.ndarray:
    """Returns the rows of `documents`, given as paragraphs: ROW [bands * documents with words], one row per band.

    `seed` determines the permutations; a band has `rows` minimum hashes.
    """
    ids = np.array([document_id("\n".join(paragraphs)) for paragraphs in documents], np.int64)
    shingles, splits = hash_shingles(*hash_words(documents))
    kept = np.diff(splits) > 0
    hashes = minimum_hashes(shingles, splits[np.append(kept, True)], seed)
    table = np.empty((len(hashes), bands), ROW)
    table["id"] = ids[kept, None]
    table["signature"] = low_bits(hashes)[:, None]
    for band in range(bands):
        columns = hashes[:, band * rows : (band + 1) * rows]
        table["band"][:, band] = stream_keys(np.full(len(hashes), band), *columns.T)
    return table.ravel()


def hash_words(documents: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the hashes of the W lower-cased words of n documents: uint64 [W], and the row splits, int64 [n+1]."""
    hashes = [np.zeros(0, np.uint64)]
    counts = np.zeros(len(documents), np.int64)
    for owners, texts in in_slices(documents):
        code_points, classes, starts = read_characters([text.lower() for text in texts])
        positions, begins = find_words(classes)
        lengths = np.diff(np.append(begins, len(positions)))
        offsets = np.arange(len(positions)) - np.repeat(begins, lengths)
        # A word's hash is the sum of random numbers keyed by character and position in the word.
        letters = mix64(code_points[positions] | offsets.astype(np.uint64) << _OFFSET_SHIFT)
        if len(begins):
            hashes.append(np.add.reduceat(letters, begins))
        of_text = np.diff(np.searchsorted(positions[begins], [*starts, len(classes)]))
        np.add.at(counts, owners, of_text)
    return np.concatenate(hashes), np.concatenate([[0], np.cumsum(counts)])


def hash_shingles(words: np.ndarray, splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the hashes of runs of `SHINGLE_WORDS` words; a document with fewer words is one run.

    `words` are word hashes, uint64 [W], `splits` the row splits of the documents, int64 [n+1]. Returns shingle hashes,
    uint32 [S], and the row splits of the documents, int64 [n+1].
    """
    counts = np.diff(splits)
    runs = np.where(counts > 0, np.maximum(counts - SHINGLE_WORDS + 1, 1), 0)
    begins = ranges(splits[:-1], runs)
    ends = np.repeat(splits[1:], runs)
    shingles = words[begins]
    for place in range(1, SHINGLE_WORDS):
        inside = begins + place < ends
        following = words[np.minimum(begins + place, len(words) - 1)] if len(words) else words
        shingles = np.where(inside, shingles * _SHINGLE_MULTIPLIER + following, shingles)
    return (mix64(shingles) >> np.uint64(32)).astype(np.uint32), np.concatenate([[0], np.cumsum(runs)])


def minimum_hashes(shingles: np.ndarray, splits: np.ndarray, seed: int) -> np.ndarray:
    """Returns the minimum hash of each document under every permutation: uint32 [n, PERMUTATIONS].

    `shingles` are hashes, uint32 [S], `splits` the row splits, int64 [n+1], of documents with at least one shingle
    each.
    """
    minhash = _minhash(seed)
    hashes = np.empty((len(splits) - 1, PERMUTATIONS), np.uint32)
    for number, (first, last) in enumerate(itertools.pairwise(splits.tolist())):
        minhash.clear()
        for begin in range(first, last, _SHINGLES_AT_ONCE):
            # One array passed as a single value, hashed to itself; passing numbers one by one takes twice the time.
            minhash.update_batch([shingles[begin : min(begin + _SHINGLES_AT_ONCE, last)]])
        hashes[number] = minhash.hashvalues
    return hashes


def low_bits(hashes: np.ndarray) -> np.ndarray:
    """Packs the low `BITS` bits of `hashes`, uint32 [n, PERMUTATIONS], to uint64 [n, PERMUTATIONS * BITS / 64]."""
    bits = (hashes & np.uint32((1 << BITS) - 1)).astype(np.uint64)
    bits = bits.reshape(len(hashes), PERMUTATIONS * BITS // 64, 64 // BITS)
    return np.bitwise_or.reduce(bits << np.arange(0, 64, BITS, dtype=np.uint64), axis=2)


def estimated_similarity(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimates the Jaccard similarity, float64 [n], of n pairs of documents from their packed bits, uint64 [n, words].

    The share of equal slots is corrected for equality by chance, one slot in `2 ** BITS`.
    """
    differ = one ^ other
    differ = (differ | differ >> np.uint64(1)) & np.uint64(0x5555555555555555)
    equal = 1 - np.bitwise_count(differ).sum(axis=1) / PERMUTATIONS
    chance = 2.0**-BITS
    return (equal - chance) / (1 - chance)


def find_near_duplicates(table: np.ndarray, threshold: float) -> np.ndarray:
    """Returns the ids of the documents to drop, sorted and unique int64 [m], from complete bands.

    In each of its bands a document is compared with the `REPRESENTATIVES` documents of smallest ids. It is dropped if
    one of these has a smaller id and a similarity of at least `threshold`, even if that document is dropped as well.
    `table` has all rows of some bands, in any order; rows may be repeated.
    """
    _, group, sizes = np.unique(table["band"], return_inverse=True, return_counts=True)
    shared = sizes[group] > 1
    table, group = table[shared], group[shared]
    order = np.lexsort((table["id"], group))
    table, group = table[order], group[order]
    fresh = np.ones(len(table), bool)
    fresh[1:] = (group[1:] != group[:-1]) | (table["id"][1:] != table["id"][:-1])
    table, group = table[fresh], group[fresh]
    first = np.searchsorted(group, group)
    place = np.arange(len(table)) - first
    dropped = np.zeros(len(table), bool)
    for representative in range(REPRESENTATIVES):
        rows = np.flatnonzero((place > representative) & ~dropped)
        representatives = first[rows] + representative
        similarity = estimated_similarity(table["signature"][rows], table["signature"][representatives])
        dropped[rows] = similarity >= threshold
    return np.unique(table["id"][dropped])


@functools.lru_cache(maxsize=2)
def _minhash(seed: int) -> MinHash:
    """Returns the cached MinHash with the permutations of `seed`: odd factors, and summands."""
    from datasketch import MinHash

    bits = random_bits(stream_keys(seed, _PERMUTATION_STREAM), np.arange(2 * PERMUTATIONS)) >> np.uint64(32)
    factors, summands = bits.astype(np.uint32).reshape(2, PERMUTATIONS)
    permutations = np.stack([factors | np.uint32(1), summands])
    return MinHash(PERMUTATIONS, hashfunc=np.asarray, permutations=permutations, scheme="affine32")
