"""Statistics of experiments, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bert_tf.experiments.statistics import Comparison, Spread, mcnemar, paired_bootstrap, spread


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
    result = paired_bootstrap(lambda rows: gains[rows].mean(), len(gains), samples=4000)
    assert result.difference == pytest.approx(gains.mean())
    assert result.low == pytest.approx(gains.mean() - 1.96 * error, abs=0.15 * error)
    assert result.high == pytest.approx(gains.mean() + 1.96 * error, abs=0.15 * error)
    tail = math.erfc(abs(gains.mean()) / error / math.sqrt(2))
    assert result.p_value == pytest.approx(tail, abs=0.015)
    assert result == paired_bootstrap(lambda rows: gains[rows].mean(), len(gains), samples=4000)


def test_equal_systems_do_not_differ() -> None:
    result = paired_bootstrap(lambda rows: 0.0, 10)
    assert result == Comparison(0.0, 0.0, 0.0, 1.0)
    assert not result.significant


def test_a_worse_system_is_found_too() -> None:
    scores = np.array([-1.0, -0.5, -0.2] * 30)
    result = paired_bootstrap(lambda rows: scores[rows].mean(), len(scores), samples=999)
    assert result.high < 0 and result.p_value == pytest.approx(0.002)
    with pytest.raises(ValueError, match="Received: 0"):
        paired_bootstrap(lambda rows: 0.0, 0)


@pytest.mark.parametrize(
    ("low", "high", "expected", "direction"),
    [
        (0.1, 0.5, 2.0, "same"),
        (0.1, 0.5, -2.0, "reversed"),
        (-0.5, -0.1, -2.0, "same"),
        (-0.5, 0.1, -2.0, "within noise"),
    ],
)
def test_directions(low: float, high: float, expected: float, direction: str) -> None:
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
