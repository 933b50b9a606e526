"""Word counts and the input of the trainer: tables, word counts, alphabet, sample."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.output import storage
from beam_pipelines.output.run_output import RunOutput
from beam_pipelines.transforms.count_words import (
    PartitionSummary,
    merge_counts,
    pack_counts,
    partition_count,
    unpack_counts,
    whole_weights,
)
from beam_pipelines.vocabulary.train_wordpiece import choose_alphabet, describe, systematic_sample
from beam_pipelines.vocabulary.word_counts import WordCounts
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

words = st.text("abcé中#", min_size=1, max_size=4)
tables = st.lists(st.dictionaries(words, st.integers(1, 5), max_size=12), min_size=1, max_size=5)


def counted(directory: str, tables: list[dict[str, int]], min_count: int, partitions: int = 3) -> WordCounts:
    """Splits `tables` over partitions and merges them, as the pipeline does."""
    parts: dict[int, list[bytes]] = {}
    for table in tables:
        for number in range(partitions):
            own = {w.encode(): n for w, n in table.items() if zlib.crc32(w.encode()) % partitions == number}
            parts.setdefault(number, []).append(pack_counts(own, sum(own.values())))
    output = RunOutput(directory)
    output.begin()
    for element in parts.items():
        merge_counts(element, output, min_count)
    return WordCounts(directory)


@given(st.dictionaries(words.map(str.encode), st.integers(1, 2**60), max_size=20))
@settings(deadline=None, max_examples=50)
def test_words_are_sorted_by_frequency(counts: dict[bytes, int]) -> None:
    found, occurrences = unpack_counts(pack_counts(counts, 5))
    assert list(found.items()) == sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    assert occurrences == 5


@given(tables, st.integers(1, 3), st.integers(1, 30))
@settings(deadline=None, max_examples=60)
def test_word_counts(tables: list[dict[str, int]], min_count: int, limit: int) -> None:
    total = sum((Counter(table) for table in tables), Counter())
    kept = {word: count for word, count in total.items() if count >= min_count}
    with tempfile.TemporaryDirectory() as directory:
        word_counts = counted(directory, tables, min_count)
        assert (word_counts.occurrences, word_counts.distinct) == (total.total(), len(total))
        assert word_counts.weight == total.total()
        ranked = sorted(kept, key=lambda word: (-kept[word], word.encode()))
        assert word_counts.most_frequent(limit) == {word: kept[word] for word in ranked[:limit]}
        merged = {word.decode(): count for table in word_counts.tables() for word, count in table.items()}
    assert merged == kept
    first = Counter({word[0]: 0 for word in total})
    later: Counter[str] = Counter()
    for word, count in total.items():
        first[word[0]] += count
        later.update({f"##{c}": word[1:].count(c) * count for c in set(word[1:])})
    assert word_counts.characters == first + later


def test_counts_without_their_summary_are_an_error() -> None:
    with tempfile.TemporaryDirectory() as directory:
        counted(directory, [{"a": 1}], 1, partitions=1)
        storage.delete([f"{directory}/00000.summary.json"])
        with pytest.raises(FileNotFoundError, match=r"00000\.summary\.json: file not found"):
            WordCounts(directory)


def test_overlong_words_have_no_characters(tmp_path: Path) -> None:
    word_counts = counted(str(tmp_path), [{"a" * 200: 2, "b" * 201: 7}], 1)
    assert word_counts.characters == {"a": 2, "##a": 398}
    assert word_counts.occurrences == 9


def test_summary_round_trip() -> None:
    summary = PartitionSummary(9, 2, 18, {"é": 4, "##中": 2}, {3: 1, 2**40: 1})
    assert PartitionSummary.from_json(summary.to_json()) == summary


@given(st.dictionaries(words.filter(lambda w: len(w) == 1), st.integers(1, 50), min_size=1),
       st.sampled_from([0.5, 0.9, 0.999, 1.0]), st.integers(0, 4), st.randoms(use_true_random=False))  # fmt: skip
@settings(deadline=None, max_examples=100)
def test_alphabet(first: dict[str, int], coverage: float, limit: int, rng: random.Random) -> None:
    pieces = first | {f"##{c}": rng.randint(1, 50) for c in first if rng.random() < 0.5} | {"##z": 3}
    items = list(pieces.items())
    rng.shuffle(items)
    alphabet = choose_alphabet(dict(items), coverage, limit)
    sums = Counter()
    for piece, count in pieces.items():
        sums[piece[-1]] += count
    ranked = sorted(sums, key=lambda c: (-sums[c], c))
    enough = next(n for n in range(1, len(ranked) + 1) if sum(sums[c] for c in ranked[:n]) >= coverage * sums.total())
    kept = ranked[: min(enough, limit or enough)]
    assert alphabet.characters == len(kept)
    assert alphabet.coverage == sum(sums[c] for c in kept) / sums.total()
    assert alphabet.pieces == (
        *sorted(p for p in pieces if len(p) == 1 and p in kept),
        *sorted(p for p in pieces if len(p) == 3 and p[2] in kept),
    )


def test_full_coverage_is_exact_for_corpora_of_any_size() -> None:
    pieces = {"a": 2**62, "b": 2**61 + 1, "c": 1}
    assert choose_alphabet(pieces, 1.0).characters == 3
    assert choose_alphabet(pieces, 0.9999).characters == 2


@given(st.dictionaries(words, st.integers(1, 40), min_size=1), st.integers(1, 200), st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_sample_has_the_expected_count_of_each_word(counts: dict[str, int], size: int, cut: int) -> None:
    total = sum(counts.values())
    size = min(size, total)
    sample = dict(systematic_sample(counts, size))
    assert sum(sample.values()) == size
    assert all(sample.get(word, 0) <= counts[word] for word in counts)
    keys = list(counts)
    begin, end = sorted((cut % len(keys), (cut * 7) % len(keys)))
    run = keys[begin:end]
    assert abs(sum(sample.get(w, 0) for w in run) - sum(counts[w] for w in run) * size / total) < 1
    if size == total:
        assert sample == counts


@pytest.mark.parametrize(
    ("weights", "multiples", "unit"),
    [
        ([1.0], (1,), 1),
        ([1.0, 3.0], (1, 3), 1),
        ([2.0, 6.0], (2, 6), 1),
        ([0.5, 1.5], (1, 3), 2),
        ([0.1, 0.2, 1.0], (1, 2, 10), 10),
        ([1e-9, 1.0], (1, 10_000), 10_000),
    ],
)
def test_weights_are_scaled_to_integers(weights: list[float], multiples: tuple[int, ...], unit: int) -> None:
    assert whole_weights(weights) == (multiples, unit)


@pytest.mark.parametrize(("size", "partitions"), [(0, 16), (1 << 30, 16), (100 << 30, 400), (10 << 40, 1024)])
def test_number_of_partitions_depends_on_the_size(size: int, partitions: int) -> None:
    assert partition_count(size) == partitions


def test_description() -> None:
    pieces = ("a", "b", "##a", "##b", "ab", "##ba", "abba", "##abab")
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *pieces))
    tables = [{b"abba": 3, b"abab": 2}, {b"a": 4, b"axe": 1}]
    report = describe(vocabulary, tables, lowercase=True)
    # abba; ab ##a ##b; a; [UNK]
    assert report.fertility == round((3 * 1 + 2 * 3 + 4 + 1) / 10, 4)
    assert report.unk_rate == 0.1
    assert report.continuation_share == 0.5
    assert report.unused_pieces == len({"b", "##ba", "##abab"})
    assert report.longest_pieces == ("abab", "abba", "ab", "ba", "a")
