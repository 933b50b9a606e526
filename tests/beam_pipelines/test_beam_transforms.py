"""The parts of the pipelines, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.create_pretraining_data import plan
from beam_pipelines.transforms.compact import pack, unpack
from beam_pipelines.transforms.count_words import pack_counts, unpack_counts
from beam_pipelines.transforms.tokenize import Buckets, split_sentences
from bert_tf.config import DataConfig
from bert_tf.data.pairs import TokenizedDocument

documents = st.lists(
    st.tuples(st.integers(0, 2**63 - 1), st.lists(st.integers(1, 5), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)


@given(documents, st.sampled_from([100, 1 << 16, (1 << 16) + 1, 120_000]))
@settings(deadline=None, max_examples=50)
def test_packed_documents_come_back(shapes: list[tuple[int, list[int]]], vocabulary_size: int) -> None:
    rng = np.random.default_rng(0)
    wanted = [
        TokenizedDocument(
            number, rng.integers(0, vocabulary_size, sum(lengths)).astype(np.int32), np.array(lengths, np.int32)
        )
        for number, lengths in shapes
    ]
    half = len(wanted) // 2 or 1
    chunks = [pack(part, vocabulary_size) for part in (wanted[:half], wanted[half:]) if part]
    found = list(unpack(chunks))
    assert [document.document_id for document in found] == [number for number, _ in shapes]
    for one, other in zip(found, wanted, strict=True):
        assert one.token_ids.dtype == one.sentence_lengths.dtype == np.int32
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_array_equal(one.sentence_lengths, other.sentence_lengths)


@given(st.dictionaries(st.text("abé中", min_size=1).map(str.encode), st.integers(1, 2**40), max_size=20))
@settings(deadline=None, max_examples=50)
def test_packed_counts_come_back(counts: dict[bytes, int]) -> None:
    assert unpack_counts(pack_counts(counts, 77)) == (counts, 77)
    assert pack_counts(dict(reversed(counts.items())), 77) == pack_counts(counts, 77)


def test_buckets_are_even_and_keep_the_validation_share() -> None:
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
        ({}, 190 << 20, 3, 1),
        ({}, 19_200 << 20, 300, 3),
        ({"num_shards": 7}, 10, 7, 1),
        ({"validation_fraction": 0.0}, 10, 1, 0),
        ({"validation_fraction": 0.5, "num_shards": 4}, 10, 4, 4),
    ],
)
def test_shards_follow_from_the_size(fields: dict, text_bytes: int, train: int, validation: int) -> None:
    config, buckets = plan(DataConfig(**fields), text_bytes)
    assert (config.num_shards, buckets.train, buckets.validation) == (train, train, validation)


def test_sentences() -> None:
    paragraphs = ("Mr. Smith went. He saw.", "Then left.")
    assert [s.strip() for s in split_sentences(paragraphs, "en")] == ["Mr. Smith went.", "He saw.", "Then left."]
    assert split_sentences(paragraphs, "none") == list(paragraphs)
    assert "".join(split_sentences(paragraphs[:1], "en")) == paragraphs[0]
