"""Counter-based random numbers on tensors, bit-identical to `randomness`."""

from __future__ import annotations

import tensorflow as tf

from bert_tf.data.randomness import GAMMA, MULTIPLIERS, PART, SHIFTS


def mix64(x: tf.Tensor) -> tf.Tensor:
    """Applies the SplitMix64 finalizer to the uint64 tensor `x`."""
    for shift, multiplier in zip(SHIFTS[:2], MULTIPLIERS, strict=True):
        x = tf.bitwise.bitwise_xor(x, _shifted(x, shift)) * tf.constant(multiplier, tf.uint64)
    return tf.bitwise.bitwise_xor(x, _shifted(x, SHIFTS[2]))


def stream_keys(seed: tf.Tensor | int, *parts: tf.Tensor | int) -> tf.Tensor:
    """Returns uint64 stream keys derived from `seed` and `parts` (integers that broadcast)."""
    keys = mix64(_words(seed) + tf.constant(GAMMA, tf.uint64))
    for part in parts:
        keys = mix64(tf.bitwise.bitwise_xor(keys, mix64(_words(part) + tf.constant(PART, tf.uint64))))
    return keys


def random_bits(keys: tf.Tensor, counters: tf.Tensor | int) -> tf.Tensor:
    """Returns draw number `counters` of the streams `keys`: uint64 of the broadcast shape."""
    return mix64(_words(keys) + (_words(counters) + tf.constant(1, tf.uint64)) * tf.constant(GAMMA, tf.uint64))


def uniform(keys: tf.Tensor, counters: tf.Tensor | int) -> tf.Tensor:
    """Returns draws in [0, 1): float64 of the broadcast shape, multiples of 2**-53."""
    return tf.cast(_shifted(random_bits(keys, counters), 11), tf.float64) * 2.0**-53


def integers(keys: tf.Tensor, counters: tf.Tensor | int, bound: int) -> tf.Tensor:
    """Returns integers in [0, bound), with 1 <= bound <= 2**32: int64 of the broadcast shape."""
    upper = _shifted(random_bits(keys, counters), 32)
    return tf.cast(_shifted(upper * tf.constant(bound, tf.uint64), 32), tf.int64)


def _shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.uint64))


def _words(x: tf.Tensor | int) -> tf.Tensor:
    return tf.constant(x & 0xFFFFFFFFFFFFFFFF, tf.uint64) if isinstance(x, int) else tf.cast(x, tf.uint64)
