from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import DataConfig
from bert_tf.data.examples.build import build_pairs
from bert_tf.data.masking import tf as tf_masking
from bert_tf.data.masking import tokens as masking
from bert_tf.data.randomness import stream_keys
from tests.support.data.samples import make_vocabulary, random_documents, rows, take

CONFIG = DataConfig(max_seq_length=64, max_predictions_per_seq=10)
VOCABULARY = make_vocabulary()


@pytest.fixture(scope="module")
def pairs():
    return build_pairs(random_documents(VOCABULARY, 2000, seed=1), CONFIG, VOCABULARY)


def test_masks_are_valid(pairs):
    masked = masking.mask_pairs(pairs, CONFIG, VOCABULARY)
    special = set(VOCABULARY.special_ids)
    everything = zip(
        rows(pairs), masked.token_ids, masked.mask_positions, masked.mask_ids, masked.mask_weights, strict=True
    )
    for original, tokens, positions, ids, weights in everything:
        text = sum(token not in special for token in original.tolist())
        count = min(10, max(1, round(len(original) * 0.15)), text)
        assert weights.tolist() == [1.0] * count + [0.0] * (10 - count)
        assert (np.diff(positions[:count]) > 0).all()
        assert not positions[count:].any()
        assert not ids[count:].any()
        assert ids[:count].tolist() == original[positions[:count]].tolist()
        assert not special & set(ids[:count].tolist())
        assert not (special - {VOCABULARY.mask_id}) & set(tokens[positions[:count]].tolist())
        untouched = np.delete(np.arange(len(original)), positions[:count])
        assert tokens[untouched].tolist() == original[untouched].tolist()
        assert (tokens[len(original) :] == VOCABULARY.pad_id).all()


def test_mask_probabilities_are_those_of_the_paper(pairs):
    masked = masking.mask_pairs(pairs, CONFIG, VOCABULARY)
    row, slot = np.nonzero(masked.mask_weights)
    before = masked.mask_ids[row, slot]
    after = masked.token_ids[row, masked.mask_positions[row, slot]]
    count = len(before)
    assert abs(count / len(pairs.token_ids) - 0.15) < 0.005
    for share, seen in ((0.8, after == VOCABULARY.mask_id), (0.1, after == before)):
        # Four standard errors; one replacement in 500 is the token itself.
        assert abs(seen.mean() - share) < 4 * np.sqrt(share * (1 - share) / count) + 0.1 / 500
    drawn = after[(after != VOCABULARY.mask_id) & (after != before)]
    pool = masking.replacement_ids(VOCABULARY)
    counts = np.bincount(drawn, minlength=len(VOCABULARY))[pool]
    assert counts.sum() == len(drawn)
    # Chi-square with 499 degrees of freedom: 99.9 % are below 602.
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 602


@pytest.mark.parametrize("probability", [0.3, 0.4])
@pytest.mark.parametrize("unit", ["piece", "whole_word", "span"])
def test_shares_of_more_predictions(pairs, unit, probability):
    config = DataConfig(max_seq_length=64, masked_lm_prob=probability, mask_unit=unit)
    masked = masking.mask_pairs(pairs, config, VOCABULARY)
    predicted, wanted = masked.mask_weights.sum(axis=1), probability * np.diff(pairs.row_splits)
    if unit == "piece":
        assert (np.abs(predicted - wanted) <= 0.5 + 1e-6).all(), "no example reaches the maximum"
    assert predicted.sum() == pytest.approx(wanted.sum(), rel=0.02)
    is_mask = masked.token_ids == VOCABULARY.mask_id
    assert is_mask.sum() == pytest.approx(0.8 * predicted.sum(), rel=0.02)


def test_positions_are_uniform(pairs):
    tokens = np.tile(rows(pairs)[0][:1], (4000, 64)).astype(np.int32)
    tokens[:, 1:63] = VOCABULARY.id_of("w9")
    keys = stream_keys(4, np.arange(4000))
    masked = masking.mask_rows(tokens, np.full(4000, 64), keys, CONFIG, VOCABULARY)
    counts = np.bincount(masked.mask_positions.ravel(), minlength=64)
    assert counts[0] == counts[63] == 0
    counts = counts[1:63]
    # Chi-square with 61 degrees of freedom, drawn without replacement: 99.9 % are below 100.9.
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 100.9


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mask_share": 1.0, "random_share": 0.0},
        {"mask_share": 0.0, "random_share": 1.0},
        {"mask_share": 0.0, "random_share": 0.0},
        {"masked_lm_prob": 1.0, "max_predictions_per_seq": 64},
        {"masked_lm_prob": 0.4, "max_predictions_per_seq": 0},
        {"masked_lm_prob": 0.0},
    ],
)
def test_tensors_and_numpy_give_the_same_masks(pairs, changes):
    config = dataclasses.replace(CONFIG, **changes)
    part = take(pairs, 0, 300)
    lengths = np.diff(part.row_splits)
    dense = np.full((300, 64), VOCABULARY.pad_id, np.int32)
    dense[np.arange(64) < lengths[:, None]] = part.token_ids
    expected = masking.mask_rows(dense, lengths, part.keys, config, VOCABULARY)
    arguments = (tf.constant(dense), tf.constant(lengths, tf.int32), tf.constant(part.keys))
    actual = tf.function(tf_masking.mask_rows)(*arguments, config, VOCABULARY)
    for name in ("token_ids", "mask_positions", "mask_ids", "mask_weights"):
        tensor, array = getattr(actual, name), getattr(expected, name)
        assert tensor.dtype.as_numpy_dtype == array.dtype
        np.testing.assert_array_equal(tensor, array)


def test_masks_of_a_row_depend_only_on_its_key(pairs, monkeypatch):
    everything = masking.mask_pairs(pairs, CONFIG, VOCABULARY)
    part = masking.mask_pairs(take(pairs, 50, 60), CONFIG, VOCABULARY)
    monkeypatch.setattr(masking, "_CHUNK", 7 * 64)
    small = masking.mask_pairs(take(pairs, 0, 60), CONFIG, VOCABULARY)
    np.testing.assert_array_equal(small.mask_positions, everything.mask_positions[:60])
    np.testing.assert_array_equal(part.token_ids, everything.token_ids[50:60])
    rekeyed = dataclasses.replace(pairs, keys=pairs.keys + np.uint64(1))
    other = masking.mask_pairs(rekeyed, CONFIG, VOCABULARY)
    # 10 random positions out of about 60 rarely coincide.
    assert (other.mask_positions != everything.mask_positions).any(axis=1).mean() > 0.9


def test_masks_of_pieces_are_frozen():
    """Records stay identical to those written by earlier versions."""
    tokens = (np.arange(200 * 64).reshape(200, 64) * 7919 % len(VOCABULARY)).astype(np.int32)
    lengths = np.arange(200) % 65
    tokens[np.arange(64) >= lengths[:, None]] = VOCABULARY.pad_id
    masked = masking.mask_rows(tokens, lengths, stream_keys(9, np.arange(200)), CONFIG, VOCABULARY)
    arrays = (masked.token_ids, masked.mask_positions, masked.mask_ids, masked.mask_weights)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    assert digest == "aa073bd667f18632a53aede3fac868bede3a91ff2f41bb1a0f5f7298de2c7862"


def test_a_row_without_text_has_no_predictions():
    tokens = np.full((2, 64), VOCABULARY.pad_id, np.int32)
    tokens[:, :5] = [VOCABULARY.cls_id, VOCABULARY.unk_id, VOCABULARY.sep_id, VOCABULARY.mask_id, VOCABULARY.sep_id]
    masked = masking.mask_rows(tokens, np.array([5, 5]), np.arange(2, dtype=np.uint64), CONFIG, VOCABULARY)
    assert not masked.mask_weights.any()
    np.testing.assert_array_equal(masked.token_ids, tokens)


def test_halves_are_rounded_to_even():
    config = DataConfig(max_seq_length=64, masked_lm_prob=0.25, max_predictions_per_seq=64)
    assert masking.prediction_counts(config)[[1, 6, 10, 14, 64]].tolist() == [1, 2, 2, 4, 16]
    config = dataclasses.replace(config, masked_lm_prob=0.15)
    assert masking.prediction_counts(config).tolist() == [max(1, round(n * 0.15)) for n in range(65)]
