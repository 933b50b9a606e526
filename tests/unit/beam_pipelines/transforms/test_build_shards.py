"""Single steps of the pipelines."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.run_plan import plan_run
from beam_pipelines.sources.corpus import Corpus, Input
from beam_pipelines.sources.documents import InputFile, RawDocument, ReadSettings
from beam_pipelines.transforms.build_shards import select_documents
from beam_pipelines.transforms.count_words import pack_counts, unpack_counts
from beam_pipelines.transforms.packed_documents import Gathered, mark_copies, mark_unwanted, pack, unpack
from beam_pipelines.transforms.tokenize import (
    Buckets,
    RecentDocuments,
    TokenizeDocuments,
    shared_tokenizer,
    split_sentences,
    tokenize_documents,
)
from bert_tf.config import DataConfig
from bert_tf.data.examples.build import TokenizedDocument, document_id
from bert_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary

documents = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
    unique_by=lambda shape: shape[0],
)


@given(documents, st.sampled_from([100, 1 << 16, (1 << 16) + 1, 120_000]))
@settings(deadline=None, max_examples=50)
def test_packed_documents_round_trip(shapes: list[tuple[int, list[int]]], vocabulary_size: int) -> None:
    rng = np.random.default_rng(0)
    wanted = [
        TokenizedDocument(
            number, rng.integers(0, vocabulary_size, sum(lengths)).astype(np.int32), np.array(lengths, np.int32), source
        )
        for source, (number, lengths) in enumerate(shapes)
    ]
    half = len(wanted) // 2 or 1
    chunks = [pack(part, vocabulary_size) for part in (wanted[:half], wanted[half:]) if part]
    gathered = unpack([*chunks, mark_unwanted(np.array([5, 2**62, 5], "<i8").tobytes())])
    found = gathered.documents
    assert (gathered.unwanted, gathered.copies) == ({5, 2**62}, {})
    assert [document.source for document in found] == list(range(len(shapes)))
    assert [document.document_id for document in found] == [number for number, _ in shapes]
    for one, other in zip(found, wanted, strict=True):
        assert one.token_ids.dtype == one.sentence_lengths.dtype == np.int32
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_array_equal(one.sentence_lengths, other.sentence_lengths)


@given(st.dictionaries(st.text("abé中", min_size=1).map(str.encode), st.integers(1, 2**40), max_size=20))
@settings(deadline=None, max_examples=50)
def test_packed_counts_round_trip(counts: dict[bytes, int]) -> None:
    assert unpack_counts(pack_counts(counts, 77)) == (counts, 77)
    assert pack_counts(dict(reversed(counts.items())), 77) == pack_counts(counts, 77)


def test_buckets_are_uniform_with_the_validation_fraction() -> None:
    buckets = Buckets(seed=3, train=4, validation=1, validation_fraction=0.2)
    drawn = buckets.of(np.random.default_rng(0).integers(0, 2**63 - 1, 50_000))
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, [0.2] * 5, atol=0.01)
    assert [buckets.name(bucket) for bucket in (0, 3, 4)] == [("train", 0, 4), ("train", 3, 4), ("validation", 0, 1)]


def test_another_seed_draws_other_buckets() -> None:
    numbers = np.arange(1000) * 7919
    one, other = (Buckets(seed, 10, 0, 0.0).of(numbers) for seed in (1, 2))
    assert 0.05 < np.mean(one == other) < 0.15


@pytest.mark.parametrize(
    ("fields", "text_bytes", "train", "validation"),
    [
        ({}, 10, 1, 1),
        ({}, 190 << 20, 6, 1),
        ({}, 19_200 << 20, 600, 6),
        ({"num_shards": 7}, 10, 7, 1),
        ({"validation_fraction": 0.0}, 10, 1, 0),
        ({"validation_fraction": 0.5, "num_shards": 4}, 10, 4, 4),
    ],
)
def test_number_of_shards_depends_on_the_size(fields: dict, text_bytes: int, train: int, validation: int) -> None:
    corpus = Corpus((Input("a.txt", "text"),), (InputFile("a.txt", text_bytes, 0.0),))
    plan = plan_run(corpus, ReadSettings(), [DataConfig(**fields)], Vocabulary(SPECIAL_TOKENS))
    assert (plan.config.num_shards, plan.buckets.train, plan.buckets.validation) == (train, train, validation)


@pytest.mark.parametrize(
    ("fields", "text_bytes", "share"),
    [
        ({}, 200 << 20, 0.01),
        ({}, 5 << 20, 0.03),
        ({"max_seq_length": 512}, 5 << 20, 0.1),
        ({"dupe_factor": 3}, 5 << 20, 0.01),
        ({}, 10, 0.1),
        ({"validation_fraction": 0.0}, 10, 0.0),
        ({"validation_fraction": 0.2}, 10, 0.2),
    ],
)
def test_a_small_corpus_holds_out_a_larger_share(fields: dict, text_bytes: int, share: float) -> None:
    corpus = Corpus((Input("a.txt", "text"),), (InputFile("a.txt", text_bytes, 0.0),))
    plan = plan_run(corpus, ReadSettings(), [DataConfig(**fields)], Vocabulary(SPECIAL_TOKENS))
    assert plan.config.validation_fraction == plan.buckets.validation_fraction == share


def test_sentences() -> None:
    paragraphs = ("Mr. Smith went. He saw.", "Then left.")
    assert [s.strip() for s in split_sentences(paragraphs, "en")] == ["Mr. Smith went.", "He saw.", "Then left."]
    assert split_sentences(paragraphs, "none") == list(paragraphs)
    assert "".join(split_sentences(paragraphs[:1], "en")) == paragraphs[0]


def test_documents_are_tokenized_in_the_language_of_their_source() -> None:
    tokenizer = shared_tokenizer((*SPECIAL_TOKENS, "a", "b", "aa", "bb", "।", "."), True)
    documents = [
        RawDocument("f", "line 1", ("Aa bb. Aa",), source=0),
        RawDocument("f", "line 2", ("\u200b",), source=0),
        RawDocument("f", "line 3", ("a। b b। a",), source=1),
        RawDocument("f", "line 4", ("a. b", "b"), source=2),
    ]
    one, none, two, three = tokenize_documents(documents, range(4), ("en", "hi", "none"), tokenizer)
    assert none is None
    assert one is not None and two is not None and three is not None
    assert (one.sentence_lengths.tolist(), one.source) == ([3, 1], 0)
    assert (two.sentence_lengths.tolist(), two.source) == ([2, 3, 1], 1)
    assert (three.sentence_lengths.tolist(), three.source) == ([3, 1], 2)
    assert [document.document_id for document in (one, two, three)] == [0, 2, 3]


PIECES = Vocabulary((*SPECIAL_TOKENS, "a", "b", "c", "."))
BUCKETS = Buckets(seed=0, train=3, validation=0, validation_fraction=0.0)


def raw(text: str, source: int = 0, reason: str = "") -> RawDocument:
    return RawDocument("f", "line 1", (text,), reason, source)


def tokenized_bundle(
    batches: list[list[RawDocument]], finished: frozenset[int] = frozenset()
) -> tuple[list[tuple[int, bytes]], Counter]:
    """Returns the elements that one bundle sends to the buckets, and its tally."""
    step = TokenizeDocuments(DataConfig(), ("none", "none"), PIECES, BUCKETS, finished)
    step.setup()
    step.start_bundle()
    elements = [each for batch in batches for each in step.process(batch)]
    sent = [each for each in elements if isinstance(each, tuple)]
    tally: Counter = Counter()
    for each in elements:
        if not isinstance(each, tuple) and each.tag == "tally":
            tally.update(dict([each.value]))
    return sent + [windowed.value for windowed in step.finish_bundle()], tally


def test_copies_are_dropped_before_the_shuffle_and_counted_in_their_bucket() -> None:
    batches = [[raw("a b"), raw("c"), raw("a b")], [raw("a b")] * 500, [raw("c", source=1), raw("x", reason="odd")]]
    sent, tally = tokenized_bundle(batches)
    assert sum(len(chunk) for _, chunk in sent) < 1000
    (bucket,) = BUCKETS.of(np.array([document_id("a b")]))
    own = unpack(chunk for number, chunk in sent if number == bucket)
    assert [document.document_id for document in own.documents if len(document.token_ids) == 2] == [document_id("a b")]
    whole = unpack(chunk for _, chunk in sent)
    assert (len(whole.documents), whole.copies) == (2, {0: 501, 1: 1})
    assert tally == {(0, "read"): 504, (1, "read"): 1, (0, "odd"): 1}


def test_copies_of_a_finished_bucket_are_not_counted_again() -> None:
    (bucket,) = BUCKETS.of(np.array([document_id("a b")]))
    sent, tally = tokenized_bundle([[raw("a b"), raw("a b")]], finished=frozenset([int(bucket)]))
    assert sent == []
    assert tally == {(0, "read"): 2}


def test_the_copy_of_the_lowest_source_is_kept() -> None:
    sent, _ = tokenized_bundle([[raw("a b", source=1), raw("a b", source=1), raw("a b"), raw("a b", source=1)]])
    gathered = unpack(chunk for _, chunk in sent)
    assert [document.source for document in gathered.documents] == [0]
    assert gathered.copies == {1: 3}


def test_copies_of_an_empty_document_are_empty_too() -> None:
    sent, tally = tokenized_bundle([[raw("\u200b"), raw("\u200b")], [raw("\u200b")]])
    assert sent == []
    assert tally == {(0, "read"): 3, (0, "empty"): 3}


def test_number_of_remembered_documents_is_limited() -> None:
    recent = RecentDocuments(capacity=3)
    seen = [recent.is_copy(number) for number in (1, 2, 1, 3, 4, 1, 2)]
    assert seen == [False, False, True, False, False, True, False]


def test_copies_are_released_while_a_bucket_is_read() -> None:
    alive: list[int] = []
    original = TokenizedDocument(7, np.arange(1000, dtype=np.int32), np.array([1000], np.int32))

    def chunks() -> Iterator[bytes]:
        for _ in range(200):
            alive.append(tracemalloc.get_traced_memory()[0])
            yield pack([original], 5000)
        yield mark_copies({0: 2, 1: 5})

    tracemalloc.start()
    try:
        gathered = unpack(chunks())
    finally:
        tracemalloc.stop()
    assert (len(gathered.documents), gathered.copies) == (1, {0: 201, 1: 5})
    assert max(alive[10:]) - alive[10] < 20_000


def numbered(count: int, source: int = 0) -> list[TokenizedDocument]:
    return [
        TokenizedDocument(7919 * number, np.array([number], np.int32), np.array([1], np.int32), source)
        for number in range(count)
    ]


def test_weights_give_the_expected_number_of_passes() -> None:
    documents = [
        *numbered(4000),
        *(dataclasses.replace(d, source=1, document_id=d.document_id + 1) for d in numbered(100)),
    ]
    gathered = Gathered(documents, frozenset(), Counter())
    chosen = select_documents(gathered, (0.15, 2.0), DataConfig(dupe_factor=5))
    copies = {source: [] for source in (0, 1)}  # type: ignore[var-annotated]
    for document, count in zip(chosen.documents, chosen.copies, strict=True):
        copies[document.source].append(int(count))
    assert copies[1] == [10] * 100
    assert set(copies[0]) == {1}
    # 4,000 draws of probability 0.75: standard deviation 27.
    assert abs(len(copies[0]) - 3000) < 110
    assert chosen.left_out == {(0, "not_drawn"): 4000 - len(copies[0])}


def test_left_out_documents_are_counted_by_source_and_reason() -> None:
    documents = [*numbered(5, source=1), *numbered(2, source=0)]
    gathered = unpack([pack(documents, 100), mark_unwanted(np.array([7919, 4 * 7919, 99], "<i8").tobytes())])
    chosen = select_documents(gathered, (1.0, 1.0), DataConfig())
    assert [(d.document_id // 7919, d.source) for d in chosen.documents] == [(0, 0), (2, 1), (3, 1)]
    assert chosen.copies.tolist() == [1, 1, 1]
    assert chosen.left_out == {(1, "duplicate"): 2, (0, "near_duplicate"): 1, (1, "near_duplicate"): 1}
