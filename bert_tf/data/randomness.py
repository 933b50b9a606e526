"""Counter-based random number generator: every draw is a pure function of a key and a counter.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
2014; the finalizer is Stafford's variant 13): draw number `c` of key `k` is `mix64(k + (c + 1) * GAMMA)`. It is
stateless, so the draws do not depend on workers, batches or restarts. `tf_randomness` implements bit-identical
arithmetic on tensors. The generator is not suitable for cryptography.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

GAMMA = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, made odd
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
# Added to the parts of a stream key (the seed uses GAMMA), so that a part equal to the seed does not cancel it.
PART = 0xD1342543DE82EF95


def mix64(x: ArrayLike) -> np.ndarray:
    """Applies the SplitMix64 finalizer, a bijection of 64-bit words, to integers modulo 2**64; returns uint64."""
    words = _words(x)
    # The arithmetic is modulo 2**64; numpy warns about overflow for scalars.
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(SHIFTS[0]))) * np.uint64(MULTIPLIERS[0])
        words = (words ^ (words >> np.uint64(SHIFTS[1]))) * np.uint64(MULTIPLIERS[1])
        return words ^ (words >> np.uint64(SHIFTS[2]))


def stream_keys(seed: ArrayLike, *parts: ArrayLike) -> np.ndarray:
    """Derives stream keys, uint64, from a seed (or from other keys) and integers that broadcast with it.

    For one `seed`, different values of the last part give different keys.
    """
    with np.errstate(over="ignore"):
        keys = mix64(_words(seed) + np.uint64(GAMMA))
        for part in parts:
            keys = mix64(keys ^ mix64(_words(part) + np.uint64(PART)))
    return keys


def random_bits(keys: ArrayLike, counters: ArrayLike) -> np.ndarray:
    """Returns draw number `counters` of the streams `keys`: uint64 of the broadcast shape."""
    with np.errstate(over="ignore"):
        return mix64(_words(keys) + (_words(counters) + np.uint64(1)) * np.uint64(GAMMA))


def uniform(keys: ArrayLike, counters: ArrayLike) -> np.ndarray:
    """Returns draws in [0, 1): float64 of the broadcast shape, multiples of 2**-53."""
    return (random_bits(keys, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(keys: ArrayLike, counters: ArrayLike, bound: ArrayLike) -> np.ndarray:
    """Returns integers in [0, bound), with 1 <= bound <= 2**32: int64 of the broadcast shape.

    The upper 32 bits of a draw are multiplied by `bound` and shifted down, without rejection. Probabilities of two
    values differ by at most a factor of 1 + bound / 2**32. Raises ValueError if `bound` is out of range.
    """
    bounds = np.asarray(bound)
    if bounds.size and (bounds.min() < 1 or bounds.max() > 2**32):
        raise ValueError(f"`bound` must be in [1, 2**32]. Received: {bounds.min()} to {bounds.max()}")
    upper = random_bits(keys, counters) >> np.uint64(32)
    return ((upper * bounds.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def _words(x: ArrayLike) -> np.ndarray:
    if isinstance(x, int):
        return np.asarray(x & 0xFFFFFFFFFFFFFFFF, np.uint64)
    return np.asarray(x).astype(np.uint64)
