"""Near-duplicates: shingles, signatures and bands against plain Python, datasketch and known similarities."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from datasketch import MinHash, bBitMinHash
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.cleaning import characters, signatures
from beam_pipelines.cleaning.signatures import (
    PERMUTATIONS,
    REPRESENTATIVES,
    ROW,
    SHINGLE_WORDS,
    band_shape,
    estimated_similarity,
    find_near_duplicates,
    hash_shingles,
    hash_words,
    low_bits,
    minimum_hashes,
    sign_documents,
)
from beam_pipelines.transforms.near_duplicates import SignDocuments, pack_by
from bert_tf.data.examples.build import document_id
from tests.support.beam_pipelines.cleaning_samples import PROSE, as_batch, plain_words, random_words, with_edits

THRESHOLD = 0.8
TEXT = st.text("abAB É.,'—中あิ1\n", max_size=15)


def ids_of(documents: Sequence[Sequence[str]]) -> list[int]:
    return [document_id("\n".join(paragraphs)) for paragraphs in documents]


def same_pattern(hashes: Sequence[int], things: Sequence[object]) -> bool:
    """Returns True if hashes are equal exactly if their values are equal."""
    return len(hashes) == len(things) and len(set(hashes)) == len(set(things)) == len(set(zip(hashes, things)))  # noqa: B905


def plain_shingles(words: list[str]) -> list[tuple[str, ...]]:
    if len(words) < SHINGLE_WORDS:
        return [tuple(words)] if words else []
    return [tuple(words[first : first + SHINGLE_WORDS]) for first in range(len(words) - SHINGLE_WORDS + 1)]


def jaccard(one: Sequence[str], other: Sequence[str]) -> float:
    a, b = (set(plain_shingles(plain_words(" ".join(text).lower()))) for text in (one, other))
    return len(a & b) / len(a | b)


@given(st.lists(st.lists(TEXT, max_size=3), max_size=6))
@settings(deadline=None, max_examples=100)
def test_words_and_shingles_equal_plain_python(documents: list[list[str]]) -> None:
    words, splits = hash_words(documents)
    plain = [[word for text in paragraphs for word in plain_words(text.lower())] for paragraphs in documents]
    assert np.diff(splits).tolist() == [len(own) for own in plain]
    assert same_pattern(words.tolist(), [word for own in plain for word in own])
    shingles, splits = hash_shingles(words, splits)
    runs = [plain_shingles(own) for own in plain]
    assert shingles.dtype == np.uint32
    assert np.diff(splits).tolist() == [len(own) for own in runs]
    assert same_pattern(shingles.tolist(), [run for own in runs for run in own])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The river rises, falls.", "the RIVER  rises — “falls”", True),
        ("the river rises", "the rises river", False),
        ("the river rises", "the river rise", False),
        ("ab a", "a ab", False),
        ("ab ba", "ba ab", False),
        ("re\u0301sume\u0301", "resume", False),
        ("河谷很早", "河谷 很，早。", True),
        ("河谷很早", "河谷早很", False),
    ],
)
def test_case_and_punctuation_are_ignored(one: str, other: str, same: bool) -> None:
    words, splits = hash_words([[one], [other]])
    first, second = (words[begin:end].tolist() for begin, end in itertools.pairwise(splits.tolist()))
    assert (first == second) is same


def test_signatures_do_not_depend_on_slices_or_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [[text, text[:40]] for text in PROSE.values()]
    whole = sign_documents(documents, 3, 4, 5)
    monkeypatch.setattr(characters, "SLICE_CHARACTERS", max(map(len, PROSE.values())))
    parts = [sign_documents(part, 3, 4, 5) for part in (documents[:3], [], documents[3:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(sign_documents(documents, 4, 4, 5)["signature"], whole["signature"])


def test_rows_of_documents() -> None:
    documents = [["one two"], ["—"], [], ["One", "two!"], ["other words"]]
    table = sign_documents(documents, 0, 6, 7)
    assert table.dtype == ROW
    ids = ids_of(documents)
    assert table["id"].tolist() == [ids[number] for number in (0, 3, 4) for _ in range(6)]
    one, same, other = table.reshape(3, 6)
    np.testing.assert_array_equal(one[["band", "signature"]], same[["band", "signature"]])
    assert not set(one["band"]) & set(other["band"])
    assert len(set(one["band"])) == 6
    assert len(sign_documents([], 0, 6, 7)) == 0


def test_minimum_hashes_equal_those_of_datasketch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "_SHINGLES_AT_ONCE", 30)
    rng = np.random.default_rng(0)
    counts = np.array([1, 5, 60, 100])
    shingles = rng.integers(0, 2**32, counts.sum(), dtype=np.uint32)
    splits = np.concatenate([[0], np.cumsum(counts)])
    found = minimum_hashes(shingles, splits, 11)
    permutations = signatures._minhash(11).permutations
    minhashes = []
    for begin, end in itertools.pairwise(splits.tolist()):
        minhash = MinHash(PERMUTATIONS, hashfunc=int, permutations=permutations, scheme="affine32")
        for shingle in shingles[begin:end].tolist():
            minhash.update(shingle)
        minhashes.append(minhash)
    np.testing.assert_array_equal(found, [minhash.hashvalues for minhash in minhashes])
    packed = low_bits(found)
    for one, other in itertools.product(range(len(counts)), repeat=2):
        wanted = bBitMinHash(minhashes[one], b=signatures.BITS).jaccard(bBitMinHash(minhashes[other], b=2))
        assert estimated_similarity(packed[one : one + 1], packed[other : other + 1])[0] == pytest.approx(wanted)


def test_signatures_are_frozen() -> None:
    table = sign_documents([["The river rises in the northern hills, 1384."]], 12345, 17, 7)
    assert table["band"][[0, 16]].tolist() == [14680949868835925553, 10472050689687812818]
    assert table["signature"][0, :2].tolist() == [11003468712835851752, 8055776450007068356]


@pytest.mark.parametrize("similarity", [0.0, 0.5, 0.8, 0.95])
def test_estimates_have_the_stated_error(similarity: float) -> None:
    rng = np.random.default_rng(round(similarity * 100))
    pairs, size = 400, 300
    shared = round(2 * size * similarity / (1 + similarity))
    exact = shared / (2 * size - shared)
    pools = rng.integers(0, 2**32, (pairs, 2 * size - shared), dtype=np.uint32)
    splits = np.arange(pairs + 1) * size
    sets = (pools[:, :size], np.concatenate([pools[:, :shared], pools[:, size:]], axis=1))
    one, other = (low_bits(minimum_hashes(np.ascontiguousarray(own).ravel(), splits, 5)) for own in sets)
    estimates = estimated_similarity(one, other)
    equal = exact + (1 - exact) / 4
    error = np.sqrt(equal * (1 - equal) / PERMUTATIONS) / 0.75
    # The mean within four standard errors, the standard deviation within 20 % (five times its standard error).
    assert abs(estimates.mean() - exact) < 4 * error / np.sqrt(pairs)
    assert 0.8 * error < estimates.std() < 1.2 * error


@pytest.mark.parametrize(
    ("threshold", "shape"), [(0.5, (34, 3)), (0.7, (23, 5)), (0.8, (17, 7)), (0.9, (10, 12)), (0.95, (7, 18))]
)
def test_bands_find_most_duplicates_at_the_threshold(threshold: float, shape: tuple[int, int]) -> None:
    bands, rows = band_shape(threshold)
    assert (bands, rows) == shape
    assert bands * rows <= PERMUTATIONS
    assert 1 - (1 - threshold**rows) ** bands > 0.96


def brute_force(table: np.ndarray, threshold: float) -> list[int]:
    """Applies the rule of `find_near_duplicates` pair by pair."""
    bands = defaultdict(dict)
    for band, number, signature in table.tolist():
        bands[band][number] = np.array(signature, np.uint64)
    dropped = set()
    for members in bands.values():
        smallest = sorted(members)[:REPRESENTATIVES]
        for number, other in itertools.product(members, smallest):
            if other < number:
                bits = [
                    [int(word) >> 2 * slot & 3 for word in members[key] for slot in range(32)]
                    for key in (number, other)
                ]
                equal = sum(a == b for a, b in zip(*bits, strict=True)) / PERMUTATIONS
                if (equal - 0.25) / 0.75 >= threshold:
                    dropped.add(number)
    return sorted(dropped)


def clusters(rng: np.random.Generator, count: int) -> np.ndarray:
    """Returns rows in two bands each, with signatures around a few centres at all distances from the threshold."""
    table = np.zeros(2 * count, ROW)
    centres = rng.integers(0, 2**64, (3, 4), dtype=np.uint64)
    ids = rng.integers(0, 2**63 - 1, count)
    for number in range(count):
        signature = centres[number % 3].copy()
        for _ in range(rng.integers(0, 40)):
            signature[rng.integers(4)] ^= np.uint64(1) << np.uint64(rng.integers(64))
        rows = slice(2 * number, 2 * number + 2)
        table["id"][rows] = ids[number]
        table["signature"][rows] = signature
        table["band"][rows] = rng.integers(0, 2**64, dtype=np.uint64), rng.integers(0, 4)
    return table


@pytest.mark.parametrize("seed", range(5))
def test_near_duplicates_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = clusters(rng, 120)
    wanted = brute_force(table, THRESHOLD)
    assert 20 < len(wanted) < 110
    for _ in range(3):
        twice = rng.permutation(np.concatenate([table, table[:30]]))
        assert find_near_duplicates(twice, THRESHOLD).tolist() == wanted
    parts = [find_near_duplicates(table[table["band"] % 5 == part], THRESHOLD) for part in range(5)]
    assert np.unique(np.concatenate(parts)).tolist() == wanted
    assert find_near_duplicates(table[:0], THRESHOLD).tolist() == []


def test_only_the_smallest_ids_of_a_band_are_compared() -> None:
    rng = np.random.default_rng(0)
    table = np.zeros(REPRESENTATIVES + 3, ROW)
    table["id"] = np.arange(len(table))
    table["signature"] = rng.integers(0, 2**64, (len(table), 4), dtype=np.uint64)
    for beyond, wanted in ((REPRESENTATIVES, []), (REPRESENTATIVES - 1, [REPRESENTATIVES + 2])):
        alike = table.copy()
        alike["signature"][-1] = alike["signature"][beyond]
        assert find_near_duplicates(alike, THRESHOLD).tolist() == wanted == brute_force(alike, THRESHOLD)


def near_duplicates(documents: Sequence[Sequence[str]]) -> set[int]:
    table = sign_documents(documents, 7, *band_shape(THRESHOLD))
    return set(find_near_duplicates(table, THRESHOLD).tolist())


# 400 words, 396 shingles: an edit changes five on each side.
@pytest.mark.parametrize(
    ("edits", "similarity", "least", "most"), [(4, 0.904, 0.99, 1.0), (9, 0.796, 0.3, 0.7), (15, 0.681, 0.0, 0.03)]
)
def test_share_found_at_known_similarities(edits: int, similarity: float, least: float, most: float) -> None:
    rng = random.Random(edits)
    pairs = 250
    originals = [random_words(rng, 400) for _ in range(pairs)]
    documents = [[" ".join(words)] for words in originals]
    documents += [[" ".join(with_edits(rng, words, edits)).title()] for words in originals]
    assert jaccard(documents[0], documents[pairs]) == pytest.approx(similarity, abs=0.001)
    dropped = near_duplicates(documents)
    ids = ids_of(documents)
    assert dropped <= {max(pair) for pair in zip(ids[:pairs], ids[pairs:], strict=True)}
    assert least <= len(dropped) / pairs <= most


def test_chinese_documents_are_compared_by_characters() -> None:
    rng = random.Random(0)
    text = "".join(chr(rng.randrange(0x4E00, 0x9000)) for _ in range(300))
    documents = [[text], [f"{text[:150]}，{text[150:-2]}。"], [text[150:] + text[:150:-1]]]
    ids = ids_of(documents)
    assert near_duplicates(documents) == {max(ids[:2])}


def test_values_are_packed_by_key() -> None:
    found = list(pack_by(np.array([3, 1, 3]), np.array([5, 6, 4], "<i8")))
    assert found == [(1, np.array([6], "<i8").tobytes()), (3, np.array([5, 4], "<i8").tobytes())]
    assert list(pack_by(np.zeros(0, np.int64), np.zeros(0, "<i8"))) == []


def test_every_row_is_emitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_pipelines.transforms.near_duplicates._ROWS_A_TABLE", 10)
    sign = SignDocuments(seed=0, bands=3, rows=4, partitions=5)
    sign.start_bundle()
    documents = [[text] for text in PROSE.values()]
    batches = [as_batch(documents[:2]), as_batch(documents[2:7]), as_batch(documents[7:])]
    elements = [element for batch in batches for element in sign.process(batch)]
    assert elements
    elements += [windowed.value for windowed in sign.finish_bundle()]
    found = []
    for partition, packed in elements:
        rows = np.frombuffer(packed, ROW)
        assert set((rows["band"] % 5).tolist()) == {partition}
        found += [row.tobytes() for row in rows]
    assert sorted(found) == sorted(row.tobytes() for row in sign_documents(documents, 0, 3, 4))
