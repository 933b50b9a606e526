"""Statistics of experiments: spread over seeds, paired bootstrap, McNemar's test, and directions of differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

# Resamples of a bootstrap; the smallest p-value is 2 / 1001.
SAMPLES = 1000
# Share of the resamples in an interval.
LEVEL = 0.95
SAME, REVERSED, NOISE = "same", "reversed", "within noise"


@dataclass(frozen=True)
class Spread:
    """Mean of values, and their sample standard deviation, which is None for a single value.

    Args:
        mean: the mean.
        deviation: the sample standard deviation.
        count: number of values.
    """

    mean: float
    deviation: float | None
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Returns mean and standard deviation of the results of several seeds.

    Args:
        values: one value for each seed.

    Raises:
        ValueError: without values.

    Example:
        >>> from bert_tf.experiments.statistics import spread
        >>> spread([80.0, 84.0, 82.0])
        Spread(mean=82.0, deviation=2.0, count=3)
    """
    if not values:
        raise ValueError("`values` must have at least one value. Received: none")
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True)
class Comparison:
    """Difference of two systems on the same examples.

    Args:
        difference: the difference on all examples.
        low: lower end of the 95% confidence interval.
        high: upper end of the 95% confidence interval.
        p_value: two-sided p-value of the hypothesis that there is no difference.
    """

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """True if the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def direction(self, expected: float) -> str:
        """Compares the sign of the difference with that of another one, such as the paper's.

        Args:
            expected: the other difference.

        Returns:
            `same`, `reversed`, or `within noise` if this difference is not significant.
        """
        if not self.significant:
            return NOISE
        return SAME if self.difference * expected > 0 else REVERSED


def paired_bootstrap(
    difference: Callable[[np.ndarray], float], examples: int, samples: int = SAMPLES, seed: int = 0
) -> Comparison:
    """Compares two systems by resampling the examples, on which both are evaluated together.

    The interval covers the choice of the examples. It covers that of the seeds only if `difference` is of means over
    several seeds.

    Args:
        difference: returns the difference of the metric on some of the examples, from their indices, int64 (examples,),
            which may repeat.
        examples: number of examples.
        samples: number of resamples.
        seed: seed of the resamples.

    Returns:
        The difference on all examples, with its percentile interval and p-value.

    Raises:
        ValueError: without examples.

    Example:
        >>> from bert_tf.experiments.statistics import paired_bootstrap
        >>> first, second = np.array([0, 1] * 50), np.array([1] * 100)  # 1 for correct predictions
        >>> result = paired_bootstrap(lambda rows: second[rows].mean() - first[rows].mean(), 100)
        >>> float(result.difference), result.significant
        (0.5, True)
    """
    if examples < 1:
        raise ValueError(f"`examples` must be at least 1. Received: {examples}")
    rng = np.random.default_rng(seed)
    values = np.array([difference(rng.integers(examples, size=examples)) for _ in range(samples)])
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    tail = min(np.count_nonzero(values <= 0), np.count_nonzero(values >= 0))
    p_value = min(1.0, 2 * (int(tail) + 1) / (samples + 1))
    return Comparison(float(difference(np.arange(examples))), float(low), float(high), p_value)


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the p-value of McNemar's exact test of two classifiers on the same examples.

    Args:
        first: whether the first classifier is correct, bool (examples,).
        second: the same of the second classifier.

    Returns:
        The two-sided p-value of the hypothesis that both have the same accuracy.

    Example:
        >>> from bert_tf.experiments.statistics import mcnemar
        >>> mcnemar(np.array([True] * 8), np.array([False] * 8))
        0.0078125
    """
    only_first = int(np.count_nonzero(first & ~second))
    only_second = int(np.count_nonzero(second & ~first))
    fewer, discordant = min(only_first, only_second), only_first + only_second
    p_value = 2 * float(binom.cdf(fewer, discordant, 0.5)) if discordant else math.inf
    return min(1.0, p_value)
