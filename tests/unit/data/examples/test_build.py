from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import (
    TokenizedDocument,
    build_pairs,
    document_id,
    draw_examples,
    ranges,
    truncated_lengths,
)
from tests.support.data.samples import make_vocabulary, numbered_documents, random_documents, rows

VOCABULARY = make_vocabulary(words=120_000, continuations=0)
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5)

bucket_lengths = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=1, max_size=6)
configs = st.builds(
    DataConfig,
    max_seq_length=st.integers(8, 64),
    max_predictions_per_seq=st.just(4),
    random_next_prob=st.sampled_from([0.0, 0.5, 1.0]),
    short_seq_prob=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 2**63 - 1),
)


def segments(pairs):
    """Checks the special tokens of every pair and returns the tokens of both segments."""
    for row, (first, second) in zip(rows(pairs), pairs.segment_lengths, strict=True):
        assert first + second == len(row)
        assert row[0] == VOCABULARY.cls_id
        assert row[first - 1] == row[-1] == VOCABULARY.sep_id
        yield row[1 : first - 1], row[first:-1]


def owner(documents, tokens) -> int:
    """Returns the document that contains `tokens` as contiguous text."""
    assert len(tokens) > 0
    np.testing.assert_array_equal(np.diff(tokens), 1)
    (found,) = [i for i, d in enumerate(documents) if d.token_ids[0] <= tokens[0] <= d.token_ids[-1]]
    assert tokens[-1] <= documents[found].token_ids[-1]
    return found


@given(lengths=bucket_lengths, config=configs)
@settings(deadline=None, max_examples=150)
def test_every_pair_is_valid(lengths, config):
    documents = numbered_documents(lengths)
    pairs = build_pairs(documents, config, VOCABULARY)
    assert (np.diff(pairs.row_splits) <= config.max_seq_length).all()
    assert (np.diff(pairs.keys.astype(object)) > 0).all()
    special = set(VOCABULARY.special_ids)
    for (a, b), label in zip(segments(pairs), pairs.next_sentence_labels, strict=True):
        assert not special & set(a.tolist() + b.tolist())
        same = owner(documents, a) == owner(documents, b)
        assert same == (label == 0)
        if label == 0:
            assert b[0] > a[-1]
            if len(a) + len(b) + 3 < config.max_seq_length:
                assert b[0] == a[-1] + 1
    if len(documents) == 1:
        assert not pairs.next_sentence_labels.any()
        assert pairs.skipped == (sum(lengths[0]) == 1)
    else:
        assert pairs.skipped == 0


@given(lengths=bucket_lengths, seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_without_truncation_no_text_is_lost_and_sentences_stay_whole(lengths, seed):
    documents = numbered_documents(lengths)
    config = DataConfig(max_seq_length=600, short_seq_prob=0.3, seed=seed)
    pairs = build_pairs(documents, config, VOCABULARY)
    if pairs.skipped:
        return
    assert set(np.concatenate([d.token_ids for d in documents])) <= set(pairs.token_ids)
    begins = {int(d.token_ids[0] + n) for d in documents for n in np.cumsum([0, *d.sentence_lengths])}
    for a, b in segments(pairs):
        whole = {len(documents[owner(documents, part)].sentence_lengths) > 1 for part in (a, b)}
        if whole == {True}:
            assert {a[0], b[0]} <= begins
            assert {a[-1] + 1, b[-1] + 1} <= begins


def test_pairs_depend_only_on_content_and_seed():
    vocabulary = make_vocabulary()
    documents = random_documents(vocabulary, 40)
    pairs = build_pairs(documents, CONFIG, vocabulary)
    again = build_pairs([*documents[20:], *documents[:25]], CONFIG, vocabulary)
    for one, other in zip(dataclasses.astuple(pairs), dataclasses.astuple(again), strict=True):
        np.testing.assert_array_equal(one, other)
    for other in (
        build_pairs(documents, dataclasses.replace(CONFIG, seed=1), vocabulary),
        build_pairs(documents, dataclasses.replace(CONFIG, max_seq_length=33), vocabulary),
    ):
        assert not set(pairs.keys.tolist()) & set(other.keys.tolist())
        assert pairs.token_ids.tolist() != other.token_ids.tolist()


def test_equal_documents_count_once():
    vocabulary = make_vocabulary()
    documents = random_documents(vocabulary, 5)
    once, twice = (build_pairs(given, CONFIG, vocabulary) for given in (documents, [*documents, documents[2]]))
    assert once.keys.tolist() == twice.keys.tolist()


@pytest.mark.parametrize(
    "sentences",
    [[200] * 6, [5] * 60, [40, 3, 90, 7, 125, 60, 4]],
    ids=["longer than the target", "short", "mixed"],
)
@pytest.mark.parametrize("probability", [0.5, 0.2])
def test_label_balance_does_not_depend_on_sentence_length(sentences, probability):
    config = DataConfig(random_next_prob=probability)
    pairs = build_pairs(numbered_documents([sentences] * 90), config, VOCABULARY)
    error = np.sqrt(probability * (1 - probability) / len(pairs))
    assert abs(pairs.next_sentence_labels.mean() - probability) < 4 * error


def test_one_sentence_documents_are_balanced_too():
    config = DataConfig(max_seq_length=40)
    documents = numbered_documents([[30]] * 2000)
    pairs = build_pairs(documents, config, VOCABULARY)
    assert abs(pairs.next_sentence_labels.mean() - 0.5) < 2 / np.sqrt(len(pairs))
    cuts = [a[-1] + 1 - documents[owner(documents, a)].token_ids[0] for a, _ in segments(pairs)]
    # The cut is at one of the 29 places between two words, or at the end of the second half (30).
    assert set(cuts) == set(range(1, 31))


def test_single_sentence_is_split_only_between_words():
    vocabulary = make_vocabulary(words=40, continuations=40)
    word, piece = vocabulary.id_of("w20"), vocabulary.id_of("##c5")
    ids = np.array([word, piece, piece, word, piece, word, piece, piece], np.int32)
    config = DataConfig(random_next_prob=0.0)
    seen = set()
    for number in range(40):
        pairs = build_pairs([TokenizedDocument(number, ids, np.array([8], np.int32))], config, vocabulary)
        assert pairs.segment_lengths.sum() == 8 + 3
        seen.add(int(pairs.segment_lengths[0, 0]) - 2)
    assert seen == {3, 5}
    for ids in ([word], [word, piece, piece]):
        alone = TokenizedDocument(1, np.array(ids, np.int32), np.array([len(ids)], np.int32))
        pairs = build_pairs([alone], config, vocabulary)
        assert (len(pairs), pairs.skipped) == (0, 1)
        partner = TokenizedDocument(2, np.array([word, word], np.int32), np.array([1, 1], np.int32))
        pairs = build_pairs([alone, partner], config, vocabulary)
        assert (pairs.skipped, pairs.next_sentence_labels.sum()) == (0, 1)


def test_partners_and_their_first_sentences_are_uniform():
    documents = numbered_documents([[10, 10, 10, 10]] * 12)
    config = DataConfig(max_seq_length=13, max_predictions_per_seq=2, random_next_prob=1.0)
    partner, start = np.zeros((12, 12), int), np.zeros(4, int)
    for a, b in segments(build_pairs(documents, config, VOCABULARY, copies=60)):
        other = owner(documents, b)
        partner[owner(documents, a), other] += 1
        start[(b[0] - documents[other].token_ids[0]) // 10] += 1
    assert not np.diag(partner).any()
    expected = partner.sum() / 132
    chosen = partner[~np.eye(12, dtype=bool)]
    # Chi-square: 99.9 % are below 188.6 for 131 and 16.3 for 3 degrees of freedom.
    assert ((chosen - expected) ** 2 / expected).sum() < 188.6
    assert ((start - start.mean()) ** 2 / start.mean()).sum() < 16.3


def test_a_tenth_of_the_target_lengths_is_short():
    documents = numbered_documents([[1] * 1000] * 100)
    config = DataConfig(max_seq_length=103, random_next_prob=0.0)
    lengths = np.diff(build_pairs(documents, config, VOCABULARY).row_splits) - 3
    # A chunk at the end of its document is shorter than its target length.
    short = lengths[lengths < 100]
    full = (lengths == 100).sum()
    assert 0.05 < len(short) / (len(short) + full) < 0.25
    exact = build_pairs(documents, dataclasses.replace(config, short_seq_prob=1.0), VOCABULARY)
    lengths = np.diff(exact.row_splits) - 3
    counts = np.bincount(lengths, minlength=101)
    assert lengths.min() == 2
    # Uniform on 2..100, except for the last chunk of each of the 100 documents.
    assert abs(lengths.mean() - 51) < 3
    assert counts[2:].max() < 3 * counts[2:].mean()


@pytest.mark.parametrize("longest", [5, 12, 125])
def test_truncated_lengths_equal_those_of_a_loop(longest):
    grid = np.array([(a, b) for a in range(1, 2 * longest, 3) for b in range(1, 2 * longest, 2)])
    kept_a, kept_b = truncated_lengths(grid[:, 0], grid[:, 1], longest)
    for (a, b), *kept in zip(grid.tolist(), kept_a.tolist(), kept_b.tolist(), strict=True):
        while a + b > longest:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        assert kept == [a, b]


def test_truncation_removes_from_both_ends_equally():
    documents = numbered_documents([[300, 10]] * 200)
    config = DataConfig(max_seq_length=113, random_next_prob=0.0, short_seq_prob=0.0)
    pairs = build_pairs(documents, config, VOCABULARY)
    front = np.array([a[0] - documents[owner(documents, a)].token_ids[0] for a, _ in segments(pairs) if len(a) == 100])
    # Half of the 200 removed tokens are removed at the start: standard deviation sqrt(50).
    assert len(front) > 100
    assert abs(front.mean() - 100) < 4 * np.sqrt(50 / len(front))
    assert abs(front.std() - np.sqrt(50)) < 2


def by_key(pairs):
    return {
        int(key): (row.tolist(), lengths.tolist(), int(label))
        for key, row, lengths, label in zip(
            pairs.keys, rows(pairs), pairs.segment_lengths, pairs.next_sentence_labels, strict=True
        )
    }


def test_every_copy_adds_different_examples():
    vocabulary = make_vocabulary()
    documents = random_documents(vocabulary, 30)
    one, three = (build_pairs(documents, CONFIG, vocabulary, copies) for copies in (1, 3))
    assert (np.diff(three.keys.astype(object)) > 0).all()
    assert by_key(one).items() <= by_key(three).items()
    assert 2.5 < len(three) / len(one) < 3.5


@pytest.mark.parametrize("next_sentence", [True, False])
def test_examples_are_laid_out_in_slices(next_sentence):
    vocabulary = make_vocabulary()
    documents = sorted(random_documents(vocabulary, 30), key=lambda document: document.document_id)
    config = dataclasses.replace(CONFIG, next_sentence=next_sentence)
    copies = np.arange(len(documents)) % 4
    examples = draw_examples(documents, copies, config, vocabulary)
    whole = examples.rows()
    assert len(whole) == len(examples)
    slices = [examples.rows(begin, begin + 7) for begin in range(0, len(examples), 7)]
    for name in ("token_ids", "segment_lengths", "next_sentence_labels", "keys"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in slices]), getattr(whole, name))


def test_documents_are_used_in_the_given_number_of_passes():
    documents = numbered_documents([[9, 8, 7]] * 400)
    copies = np.arange(400) % 3
    config = dataclasses.replace(CONFIG, next_sentence=False, short_seq_prob=0.0)
    pairs = draw_examples(documents, copies, config, VOCABULARY).rows()
    seen = np.bincount([owner(documents, row[1:-1]) for row in rows(pairs)], minlength=400)
    np.testing.assert_array_equal(seen, copies)


def test_an_empty_bucket_gives_no_pairs():
    pairs = build_pairs([], CONFIG, make_vocabulary())
    assert len(pairs) == 0
    assert pairs.row_splits.tolist() == [0]


def test_document_ids_fit_into_63_bits_and_depend_on_content():
    ids = {document_id(text) for text in ("", "a", "b", "ä", "a ")}
    assert len(ids) == 5
    assert all(0 <= number < 2**63 for number in ids)
    # A change of this number changes the order of all existing data.
    assert document_id("one document") == 1870748253681438427


@pytest.mark.parametrize(
    ("number", "tokens", "lengths"),
    [(1, [5, 6], [1]), (1, [], []), (1, [5], [1, 0]), (2**63, [5], [1]), (-1, [5], [1])],
)
def test_invalid_documents_are_refused(number, tokens, lengths):
    with pytest.raises(ValueError, match="Received"):
        TokenizedDocument(number, np.array(tokens, np.int32), np.array(lengths, np.int32))


def test_ranges_are_concatenated():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.zeros(0, int), np.zeros(0, int)).tolist() == []
