from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import randomness
from bert_tf.data.masking import tf_randomness

WORD = 2**64 - 1
# First outputs of SplitMix64 from seed 1234567, as published with its reference implementations.
PUBLISHED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def plain_mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def plain_key(seed: int, *parts: int) -> int:
    key = plain_mix64((seed + 0x9E3779B97F4A7C15) & WORD)
    for part in parts:
        key = plain_mix64(key ^ plain_mix64((part + 0xD1342543DE82EF95) & WORD))
    return key


WORDS = np.array([0, 1, 2**63 - 1, 2**63, WORD, 0x123456789ABCDEF], np.uint64)


def test_published_sequence():
    np.testing.assert_array_equal(randomness.random_bits(1234567, np.arange(5)), np.array(PUBLISHED, np.uint64))


def test_mix64_equals_plain_arithmetic():
    assert randomness.mix64(WORDS).tolist() == [plain_mix64(int(word)) for word in WORDS]
    assert int(randomness.mix64(2**64 - 5)) == plain_mix64(2**64 - 5)


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_stream_keys_depend_on_all_parts(seed):
    keys = randomness.stream_keys(seed, WORDS, -1)
    assert keys.tolist() == [plain_key(seed, int(word), -1) for word in WORDS]


def test_parts_are_not_interchangeable():
    keys = [
        int(randomness.stream_keys(*parts))
        for parts in ((1, 2, 3), (1, 3, 2), (1, 2), (1, 2, 3, 0), (2, 1, 3), (2, 1), (1, 1), (2, 2))
    ]
    assert len(set(keys)) == len(keys)


def test_tensors_and_numpy_give_the_same_bits():
    counters = np.arange(4)
    for name in ("random_bits", "uniform"):
        expected = getattr(randomness, name)(WORDS[:, None], counters)
        np.testing.assert_array_equal(getattr(tf_randomness, name)(tf.constant(WORDS)[:, None], counters), expected)
    expected = randomness.integers(WORDS[:, None], counters, 29_996)
    np.testing.assert_array_equal(tf_randomness.integers(tf.constant(WORDS)[:, None], counters, 29_996), expected)
    expected = randomness.stream_keys(2**63 - 1, np.arange(3), WORDS[:, None], 5)
    actual = tf_randomness.stream_keys(2**63 - 1, tf.range(3), tf.constant(WORDS)[:, None], 5)
    np.testing.assert_array_equal(actual, expected)


def test_uniform_is_uniform_in_the_unit_interval():
    draws = randomness.uniform(randomness.stream_keys(3, np.arange(1000))[:, None], np.arange(100))
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    counts = np.histogram(draws, bins=50, range=(0, 1))[0]
    # Chi-square with 49 degrees of freedom: 99.9 % are below 85.4.
    assert ((counts - 2000) ** 2 / 2000).sum() < 85.4


def test_integers_are_uniform_with_a_bound_per_element():
    keys = randomness.stream_keys(5, np.arange(35_000))
    counts = np.bincount(randomness.integers(keys, 0, 7), minlength=7)
    # 6 degrees of freedom: 99.9 % are below 22.5.
    assert ((counts - 5000) ** 2 / 5000).sum() < 22.5
    bounds = np.arange(1, 35_001)
    draws = randomness.integers(keys, 1, bounds)
    assert draws.min() >= 0
    assert (draws < bounds).all()


@pytest.mark.parametrize("bound", [0, -1, 2**32 + 1])
def test_integers_refuse_invalid_bounds(bound):
    with pytest.raises(ValueError, match=r"`bound` must be in \[1, 2\*\*32\]. Received"):
        randomness.integers(1, 2, bound)


def test_neighbouring_streams_are_uncorrelated():
    draws = randomness.uniform(randomness.stream_keys(0, np.arange(20_000))[:, None], np.arange(2)) - 0.5
    pairs = [(draws[:-1, 0], draws[1:, 0]), (draws[:, 0], draws[:, 1]), (draws[:-1, 1], draws[1:, 0])]
    for one, other in pairs:
        # Four standard errors of a correlation over 20,000 points.
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(20_000)
