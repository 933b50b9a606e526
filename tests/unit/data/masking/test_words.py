from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import build_pairs
from bert_tf.data.masking import tf as tf_masking
from bert_tf.data.masking import tf_words
from bert_tf.data.masking import tokens as masking
from bert_tf.data.masking import words as word_masking
from bert_tf.data.masking.words import span_limits
from bert_tf.data.randomness import random_bits, stream_keys
from tests.support.data.samples import make_vocabulary, random_documents, rows
from tests.support.data.word_masks import SHORT, chosen_positions, encode, pad, random_rows, runs_of_words, span_length

CONFIG = DataConfig(max_seq_length=64, max_predictions_per_seq=10, mask_unit="whole_word")
VOCABULARY = make_vocabulary()
FIELDS = ("token_ids", "mask_positions", "mask_ids", "mask_weights")


def masked_positions(masked: masking.Masked) -> list[list[int]]:
    counts = masked.mask_weights.sum(axis=1).astype(int)
    return [positions[:count].tolist() for positions, count in zip(masked.mask_positions, counts, strict=True)]


def mask_text(texts: list[str], config: DataConfig, seed: int = 0) -> list[list[int]]:
    tokens, lengths = pad([encode(text) for text in texts], config.max_seq_length, SHORT)
    return masked_positions(masking.mask_rows(tokens, lengths, stream_keys(seed, np.arange(len(texts))), config, SHORT))


@given(
    st.sampled_from([8, 9, 31, 64]),
    st.integers(1, 8),
    st.floats(0, 1),
    st.sampled_from([("whole_word", 3), ("span", 1), ("span", 2), ("span", 3), ("span", 10), ("span", 1000)]),
    st.floats(0, 1),
    st.floats(0, 0.5),
    st.integers(0, 2**32),
)
@settings(max_examples=200, deadline=None)
def test_choice_equals_a_loop_over_words(width, slots, prob, unit, continued, special, seed):
    config = DataConfig(
        max_seq_length=width,
        max_predictions_per_seq=slots if seed % 5 else width,
        masked_lm_prob=prob,
        mask_unit=unit[0],
        max_ngram=min(unit[1], width),
    )
    samples = random_rows(np.random.default_rng(seed), 6, width, continued, special)
    tokens, lengths = pad(samples, width, SHORT)
    keys = stream_keys(seed, np.arange(6))
    masked = masking.mask_rows(tokens, lengths, keys, config, SHORT)
    expected = [chosen_positions(row, int(key), config, SHORT) for row, key in zip(samples, keys, strict=True)]
    assert masked_positions(masked) == expected
    for row, positions, ids, weights in zip(
        tokens, masked.mask_positions, masked.mask_ids, masked.mask_weights, strict=True
    ):
        count = int(weights.sum())
        assert weights.tolist() == [1.0] * count + [0.0] * (config.max_predictions_per_seq - count)
        assert ids[:count].tolist() == row[positions[:count]].tolist()
        assert not ids[count:].any()
        assert not positions[count:].any()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mask_unit": "span"},
        {"mask_unit": "span", "max_ngram": 10, "masked_lm_prob": 0.5},
        {"mask_unit": "span", "max_ngram": 61, "max_predictions_per_seq": 4},
        {"masked_lm_prob": 0.4, "max_predictions_per_seq": 0},
        # More tries than predictions: words that are too long come first.
        {"masked_lm_prob": 0.0},
        {"max_predictions_per_seq": 1, "mask_unit": "span"},
        # Every word is masked, including the last token of a full row.
        {"masked_lm_prob": 1.0, "max_predictions_per_seq": 64, "max_seq_length": 64},
    ],
)
def test_tensors_and_numpy_give_the_same_masks(changes):
    # 61 is not a power of 2, so some values of the position's bits are not positions.
    config = dataclasses.replace(CONFIG, **{"max_seq_length": 61, **changes})
    width, rng = config.max_seq_length, np.random.default_rng(5)
    samples = [row for share in (0.0, 0.3, 0.7, 0.9) for row in random_rows(rng, 60, width, share, 0.05)]
    tokens, lengths = pad(samples, width, SHORT)
    keys = stream_keys(7, np.arange(len(samples)))
    expected = masking.mask_rows(tokens, lengths, keys, config, SHORT)
    mask = tf.function(lambda *arguments: tf_masking.mask_rows(*arguments, config, SHORT))
    actual = mask(tf.constant(tokens), tf.constant(lengths, tf.int32), tf.constant(keys))
    assert expected.mask_weights.sum() > 100
    for name in FIELDS:
        tensor, array = getattr(actual, name), getattr(expected, name)
        assert tensor.dtype.as_numpy_dtype == array.dtype
        np.testing.assert_array_equal(tensor, array)


@pytest.mark.parametrize("unit", ["piece", "span"])
def test_shapes_are_static(unit):
    config = dataclasses.replace(CONFIG, mask_unit=unit)
    mask = tf.function(lambda *arguments: tf_masking.mask_rows(*arguments, config, SHORT))
    tensors = tf.TensorSpec([8, 64], tf.int32), tf.TensorSpec([8], tf.int32), tf.TensorSpec([8], tf.uint64)
    outputs = mask.get_concrete_function(*tensors).structured_outputs
    assert [tuple(tensor.shape) for tensor in outputs] == [(8, 64), (8, 10), (8, 10), (8, 10)]


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_words_are_masked_as_a_whole(unit):
    config = dataclasses.replace(CONFIG, mask_unit=unit)
    pairs = build_pairs(random_documents(VOCABULARY, 300, seed=1), config, VOCABULARY)
    masked = masking.mask_pairs(pairs, config, VOCABULARY)
    missing = total = 0
    for tokens, positions in zip(rows(pairs), masked_positions(masked), strict=True):
        words = [word for run in runs_of_words(tokens.tolist(), VOCABULARY) for word in run]
        taken = [word for word in words if set(word) & set(positions)]
        assert sorted(position for word in taken for position in word) == positions
        wanted = min(10, max(1, round(len(tokens) * 0.15)))
        total, missing = total + wanted, missing + wanted - len(positions)
        assert len(positions) <= wanted
        if unit == "whole_word":
            assert all(len(word) > wanted - len(positions) for word in words if word not in taken)
    assert total > 3000
    assert missing / total < 0.03


def test_spans_of_one_word_are_whole_words():
    samples = random_rows(np.random.default_rng(2), 200, 64, 0.4, 0.05)
    tokens, lengths = pad(samples, 64, SHORT)
    keys = stream_keys(3, np.arange(200))
    words = masking.mask_rows(tokens, lengths, keys, CONFIG, SHORT)
    spans = masking.mask_rows(tokens, lengths, keys, dataclasses.replace(CONFIG, mask_unit="span", max_ngram=1), SHORT)
    longer = masking.mask_rows(tokens, lengths, keys, dataclasses.replace(CONFIG, mask_unit="span"), SHORT)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(words, name), getattr(spans, name))
    assert (words.mask_positions != longer.mask_positions).any()


@pytest.mark.parametrize(
    ("text", "count", "choices"),
    [
        # The second segment was truncated within a word; the rest of the word counts as a word.
        ("[CLS] ##d ##e [SEP] ##d [SEP]", 2, {(1, 2), (4,)}),
        ("[CLS] a ##d [UNK] ##e ##d [SEP]", 2, {(1, 2), (4, 5)}),
        ("[CLS] a ##d ##e [SEP] b [SEP]", 1, {(5,)}),
        ("[CLS] a ##d ##e [SEP] b [SEP]", 3, {(1, 2, 3), (5,)}),
        ("[CLS] a ##d ##e [SEP]", 2, {()}),
        ("[CLS] [UNK] [SEP] [MASK] [SEP]", 3, {()}),
        ("a b ##d c a b ##e c", 8, {(0, 1, 2, 3, 4, 5, 6, 7)}),
        ("", 2, {()}),
    ],
)
def test_words_of_a_row(text, count, choices):
    # The number of predictions is `count` for every length.
    config = DataConfig(max_seq_length=8, max_predictions_per_seq=count, masked_lm_prob=1.0, mask_unit="whole_word")
    assert {tuple(positions) for positions in mask_text([text] * 50, config)} == choices


@pytest.mark.parametrize("max_ngram", [2, 3, 5])
def test_span_lengths_have_inverse_probabilities(max_ngram):
    config = DataConfig(
        max_seq_length=512,
        max_predictions_per_seq=max_ngram,
        mask_unit="span",
        max_ngram=max_ngram,
        masked_lm_prob=0.15,
    )
    count = 6000
    tokens = np.full((count, 512), SHORT.id_of("a"), np.int32)
    keys = stream_keys(11, np.arange(count))
    masked = masking.mask_rows(tokens, np.full(count, 512), keys, config, SHORT)
    # The first word in order begins a span of the drawn length; the word after the span is masked as rarely as any
    # other word, with a probability below 1 %. Spans that would exceed the row are skipped.
    first = np.argmin(random_bits(stream_keys(keys, 1)[:, None], 3 * np.arange(512)), axis=1)
    whole = first <= 512 - max_ngram
    is_masked = np.zeros((count, 512 + 1), bool)
    is_masked[np.arange(count)[:, None], masked.mask_positions] = True
    lengths = [np.argmin(row[begin:]) for row, begin in zip(is_masked[whole], first[whole], strict=True)]
    seen = np.bincount(lengths, minlength=max_ngram + 1)[1:]
    expected = 1 / np.arange(1, max_ngram + 1)
    expected *= len(lengths) / expected.sum()
    # Chi-square with 1, 2 and 4 degrees of freedom: 99.9 % are below 10.8, 13.8 and 18.5.
    assert ((seen - expected) ** 2 / expected).sum() < {2: 10.8, 3: 13.8, 5: 18.5}[max_ngram]


@pytest.mark.parametrize("max_ngram", [1, 3, 7, 64])
def test_limits_of_span_lengths(max_ngram):
    config = DataConfig(max_seq_length=64, max_predictions_per_seq=64, mask_unit="span", max_ngram=max_ngram)
    limits = span_limits(config).tolist()
    assert [span_length(limit, max_ngram) for limit in limits] == list(range(2, max_ngram + 1))
    assert [span_length(limit - 1, max_ngram) for limit in limits] == list(range(1, max_ngram))
    fewer = dataclasses.replace(config, max_predictions_per_seq=3)
    assert span_limits(fewer).tolist() == limits[:2]
    assert not len(span_limits(dataclasses.replace(config, mask_unit="whole_word")))


@pytest.mark.parametrize(("below", "expected"), [(0, [2, 3]), (8, [2, 6])])
def test_a_draw_that_reaches_the_limit_takes_the_next_word(below, expected):
    config = DataConfig(max_seq_length=8, max_predictions_per_seq=2, mask_unit="span", max_ngram=2)
    limit = span_limits(config)[0]
    # The low bits of a random number are the position, here 2.
    assert limit % 8 == 2
    scores = np.full((1, 8), 2**63, np.uint64)
    scores[0, 2], scores[0, 6] = limit - below, 1 << 32
    flags, counts = np.ones((1, 8), bool), np.array([2])
    tensors = tf_words.choose_words(
        tf.constant(flags), tf.constant(~flags), tf.constant(scores), tf.constant(counts, tf.int32), config
    )
    assert tensors.numpy().tolist() == [expected]
    assert np.flatnonzero(word_masking.choose_words(flags, ~flags, scores, counts, config)).tolist() == expected


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_positions_are_masked_uniformly(unit):
    count = 8000
    config = dataclasses.replace(CONFIG, mask_unit=unit)
    # Words of two pieces, one, two, one ...
    words = np.tile(encode("a ##d b"), 21)[:62].astype(np.int32)
    tokens = np.tile(np.concatenate([encode("[CLS]"), words, encode("[SEP]")]).astype(np.int32), (count, 1))
    masked = masking.mask_rows(tokens, np.full(count, 64), stream_keys(4, np.arange(count)), config, SHORT)
    row, slot = np.nonzero(masked.mask_weights)
    counts = np.bincount(masked.mask_positions[row, slot], minlength=64)
    assert counts[0] == counts[63] == 0
    # The first words of a run are in fewer spans, and spans from the last words are truncated.
    margin = 0 if unit == "whole_word" else 9
    for pieces in (1, 2):
        own = [p for p in range(1 + margin, 62 - margin) if (1 if p % 3 == 0 else 2) == pieces]
        share = counts[own].mean() / count
        deviation = np.abs(counts[own] / count - share) / np.sqrt(share * (1 - share) / count)
        # About 40 positions: the largest of 40 normal deviations is below 4.2 in 99.9 % of cases.
        assert deviation.max() < 4.2


@pytest.mark.parametrize("unit", ["whole_word", "span"])
def test_each_piece_of_a_word_is_replaced_by_itself(unit):
    config = dataclasses.replace(CONFIG, mask_unit=unit, max_predictions_per_seq=20, masked_lm_prob=0.3)
    count = 3000
    begin, rest = VOCABULARY.id_of("w9"), VOCABULARY.id_of("##c9")
    tokens = np.full((count, 64), VOCABULARY.sep_id, np.int32)
    tokens[:, 1:63:2], tokens[:, 2:63:2] = begin, rest
    masked = masking.mask_rows(tokens, np.full(count, 64), stream_keys(6, np.arange(count)), config, VOCABULARY)
    row, slot = np.nonzero(masked.mask_weights)
    positions = masked.mask_positions[row, slot]
    after = masked.token_ids[row, positions].reshape(-1, 2)
    assert (positions.reshape(-1, 2)[:, 0] + 1 == positions.reshape(-1, 2)[:, 1]).all()
    is_mask, is_kept = after == VOCABULARY.mask_id, after == [begin, rest]
    for share, seen in (
        (0.8, is_mask),
        (0.1, is_kept),
        (0.64, is_mask.all(axis=1)),
        (0.01, is_kept.all(axis=1)),
        (0.08, is_mask[:, 0] & is_kept[:, 1]),
    ):
        # Four standard errors; one replacement in 500 is the token itself.
        assert abs(seen.mean() - share) < 4 * np.sqrt(share * (1 - share) / seen.size) + 0.1 / 500


def test_masks_of_a_row_depend_only_on_its_key(monkeypatch):
    config = dataclasses.replace(CONFIG, mask_unit="span")
    pairs = build_pairs(random_documents(VOCABULARY, 40, seed=2), config, VOCABULARY)
    everything = masking.mask_pairs(pairs, config, VOCABULARY)
    monkeypatch.setattr(masking, "_CHUNK", 7 * 64)
    in_parts = masking.mask_pairs(pairs, config, VOCABULARY)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(everything, name), getattr(in_parts, name))
