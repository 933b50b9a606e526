"""Statistics of experiments, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bert_tf.experiments.statistics import Comparison, Spread, mcnemar, paired_bootstrap, spread
from bert_tf.tasks.example_scores import mean_scores


def test_spread_is_that_of_a_sample() -> None:
    values = [81.2, 79.9, 80.4, 83.0]
    result = spread(values)
    assert result.mean == pytest.approx(np.mean(values))
    assert result.deviation == pytest.approx(np.std(values, ddof=1))
    assert result.count == 4
    assert spread([3.0]) == Spread(3.0, None, 1)
    with pytest.raises(ValueError, match="at least one"):
        spread([])


def test_bootstrap_interval_is_that_of_the_normal_approximation() -> None:
    rng = np.random.default_rng(1)
    gains = rng.normal(0.03, 0.4, 400)
    error = gains.std() / math.sqrt(len(gains))
    systems = [mean_scores(gains).values], [mean_scores(np.zeros(400)).values]
    result = paired_bootstrap(*systems, len(gains), samples=40_000)
    assert result.difference == pytest.approx(gains.mean())
    assert result.low == pytest.approx(gains.mean() - 1.96 * error, abs=0.15 * error)
    assert result.high == pytest.approx(gains.mean() + 1.96 * error, abs=0.15 * error)
    # The tolerance is three standard deviations of a share of 40,000 resamples.
    tail = math.erfc(abs(gains.mean()) / error / math.sqrt(2))
    assert result.p_value == pytest.approx(tail, abs=0.015)
    assert result == paired_bootstrap(*systems, len(gains), samples=40_000)


def test_equal_systems_do_not_differ() -> None:
    same = [mean_scores([0.0, 1.0] * 5).values]
    result = paired_bootstrap(same, same, 10)
    assert result == Comparison(0.0, 0.0, 0.0, 1.0)
    assert not result.significant


def test_a_worse_system_is_found_too() -> None:
    scores = np.array([-1.0, -0.5, -0.2] * 30)
    systems = [mean_scores(scores).values], [mean_scores(0 * scores).values]
    result = paired_bootstrap(*systems, len(scores), samples=999)
    assert result.high < 0 and result.p_value == pytest.approx(0.002)
    with pytest.raises(ValueError, match="Received: 0"):
        paired_bootstrap(*systems, 0)


def test_the_interval_covers_seeds_and_examples() -> None:
    # Two seeds far apart: an interval of examples alone would exclude 0.
    rng, shares = np.random.default_rng(0), ((0.9, 0.5), (0.6, 0.6))
    first, second = ([mean_scores(rng.random(400) < share).values for share in system] for system in shares)
    result = paired_bootstrap(first, second, 400)
    assert result.low < 0 < result.high
    result = paired_bootstrap(first[:1], second[:1], 400)
    assert 0.2 < result.low < 0.3 < result.high < 0.4


@pytest.mark.parametrize(
    ("low", "high", "expected", "direction"),
    [
        (0.1, 0.5, 2.0, "same direction"),
        (0.1, 0.5, -2.0, "reversed"),
        (-0.5, -0.1, -2.0, "same direction"),
        (0.1, 0.5, 0.0, "no direction in the paper"),
        (0.1, 0.5, None, "no direction in the paper"),
        (-0.5, 0.1, -2.0, "within noise"),
    ],
)
def test_directions(low: float, high: float, expected: float | None, direction: str) -> None:
    assert Comparison((low + high) / 2, low, high, 0.01).direction(expected) == direction


@pytest.mark.parametrize(("only_first", "only_second"), [(3, 12), (12, 3), (5, 5), (0, 1)])
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(only_first: int, only_second: int) -> None:
    both = 7
    first = np.array([True] * (both + only_first) + [False] * only_second)
    second = np.array([True] * both + [False] * only_first + [True] * only_second)
    count, fewer = only_first + only_second, min(only_first, only_second)
    oracle = min(1.0, 2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count)
    assert mcnemar(first, second) == pytest.approx(oracle)


def test_mcnemar_without_discordant_pairs() -> None:
    assert mcnemar(np.array([True, False]), np.array([True, False])) == 1.0
