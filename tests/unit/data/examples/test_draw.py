"""Single segments: every token once, whole sentences, in order."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import build_pairs
from tests.support.data.samples import make_vocabulary, numbered_documents, random_documents, rows

VOCABULARY = make_vocabulary(words=120_000, continuations=0)
CONFIG = DataConfig(max_seq_length=32, max_predictions_per_seq=5, next_sentence=False)

bucket_lengths = st.lists(st.lists(st.integers(1, 70), min_size=1, max_size=8), min_size=1, max_size=6)


@given(lengths=bucket_lengths, short=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**63 - 1))
@settings(deadline=None, max_examples=100)
def test_every_token_is_in_one_example(lengths, short, seed):
    documents = numbered_documents(lengths)
    config = dataclasses.replace(CONFIG, short_seq_prob=short, seed=seed)
    singles = build_pairs(documents, config, VOCABULARY)
    found = []
    for row, (first, second), label in zip(
        rows(singles), singles.segment_lengths, singles.next_sentence_labels, strict=True
    ):
        assert len(row) <= config.max_seq_length
        assert (first, second, label) == (len(row), 0, 0)
        assert (row[0], row[-1]) == (VOCABULARY.cls_id, VOCABULARY.sep_id)
        np.testing.assert_array_equal(np.diff(row[1:-1]), 1)
        found.append(row[1:-1])
    everything = np.concatenate([document.token_ids for document in documents])
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), everything)


@given(lengths=bucket_lengths)
@settings(deadline=None, max_examples=60)
def test_examples_contain_as_many_whole_sentences_as_fit(lengths):
    documents = numbered_documents(lengths)
    singles = build_pairs(documents, dataclasses.replace(CONFIG, short_seq_prob=0.0), VOCABULARY)
    ends = {int(row[-2]) for row in rows(singles)}
    for document in documents:
        room, expected, last = 30, set(), int(document.token_ids[-1])
        stop = int(document.token_ids[0]) - 1
        for length in document.sentence_lengths.tolist():
            pieces = [30] * ((length - 1) // 30) + [(length - 1) % 30 + 1]
            for piece in pieces:
                if piece > room:
                    expected.add(stop)
                    room = 30
                room -= piece
                stop += piece
        assert expected | {last} == {end for end in ends if document.token_ids[0] <= end <= last}


def test_long_sentences_are_split_between_words():
    vocabulary = make_vocabulary()
    documents = [
        dataclasses.replace(document, sentence_lengths=np.array([len(document.token_ids)], np.int32))
        for document in random_documents(vocabulary, 40)
    ]
    config = dataclasses.replace(CONFIG, short_seq_prob=0.0)
    first = [row[1] for row in rows(build_pairs(documents, config, vocabulary))]
    starts = {int(document.token_ids[0]) for document in documents}
    assert len(first) > len(documents)
    assert all(token in starts or not vocabulary.is_continuation[token] for token in map(int, first))
