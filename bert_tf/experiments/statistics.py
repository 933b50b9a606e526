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
# Resamples whose counts are in memory at once.
_SAMPLES_AT_ONCE = 250
SAME, REVERSED, NOISE = "same direction", "reversed", "within noise"
UNKNOWN = "no direction in the paper"
# For each seed of a system, its metric on resamples of the examples.
System = Sequence[Callable[[np.ndarray], np.ndarray]]


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

    def direction(self, expected: float | None) -> str:
        """Compares the sign of the difference with that of another one, such as the paper's.

        Args:
            expected: the other difference.

        Returns:
            `within noise` if this difference is not significant, otherwise as `direction`.
        """
        return direction(self.difference, expected) if self.significant else NOISE


def direction(difference: float, expected: float | None) -> str:
    """Compares the signs of two differences.

    Args:
        difference: a difference.
        expected: the expected one; None if it is unknown.

    Returns:
        `same direction`, `reversed`, or `no direction in the paper` if the expected difference is 0 or unknown.

    Example:
        >>> from bert_tf.experiments.statistics import direction
        >>> direction(0.3, 2.0), direction(-0.3, 2.0)
        ('same direction', 'reversed')
    """
    if not expected:
        return UNKNOWN
    return SAME if difference * expected > 0 else REVERSED


def paired_bootstrap(first: System, second: System, examples: int, samples: int = SAMPLES, seed: int = 0) -> Comparison:
    """Compares two systems by resampling the examples, the same for both, and the seeds of each system.

    The interval covers the choice of the examples, and that of the seeds if a system has several.

    Args:
        first: for each seed of the first system, a function that returns its metric on resamples, float64 (resamples,),
            from the number of times that each example occurs, int64 (resamples, examples).
        second: the same for the second system.
        examples: number of examples.
        samples: number of resamples.
        seed: seed of the resamples.

    Returns:
        The difference of the means over the seeds on all examples, with its percentile interval and p-value.

    Raises:
        ValueError: without examples.

    Example:
        >>> from bert_tf.experiments.statistics import paired_bootstrap
        >>> from bert_tf.tasks.example_scores import mean_scores
        >>> first, second = mean_scores([1] * 100), mean_scores([0, 1] * 50)  # 1 for correct predictions
        >>> result = paired_bootstrap([first.values], [second.values], 100)
        >>> result.difference, result.significant
        (0.5, True)
    """
    if examples < 1:
        raise ValueError(f"`examples` must be at least 1. Received: {examples}")
    rng = np.random.default_rng(seed)
    parts = [
        _differences(first, second, rng.multinomial(count, np.full(examples, 1 / examples), size), rng)
        for count, size in ((examples, len(part)) for part in np.array_split(np.arange(samples), _parts(samples)))
    ]
    values = np.concatenate(parts)
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    tail = min(np.count_nonzero(values <= 0), np.count_nonzero(values >= 0))
    p_value = min(1.0, 2 * (tail + 1) / (samples + 1))
    everything = np.ones((1, examples), np.int64)
    means = [float(np.mean([of_seed(everything)[0] for of_seed in system])) for system in (first, second)]
    return Comparison(means[0] - means[1], float(low), float(high), p_value)


def _parts(samples: int) -> int:
    """Returns the number of parts into which resamples are divided to save memory."""
    return max(1, samples // _SAMPLES_AT_ONCE)


def _differences(first: System, second: System, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the difference of both systems on each resample, with the seeds of each drawn with replacement."""
    means = []
    for system in (first, second):
        values = np.stack([of_seed(counts) for of_seed in system], axis=1)
        drawn = rng.integers(len(system), size=values.shape)
        means.append(np.take_along_axis(values, drawn, axis=1).mean(axis=1))
    return means[0] - means[1]


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
