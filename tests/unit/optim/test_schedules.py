from __future__ import annotations

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import TrainingConfig
from bert_tf.optim.schedules import (
    SCHEDULES,
    LinearWarmupDecay,
    OriginalWarmupDecay,
    Trapezoidal,
    make_schedule,
)


def oracle_rate(peak, warmup, total, done):
    """Returns the rate piecewise; the schedule takes a minimum instead."""
    if done >= total:
        return 0.0
    if done < warmup:
        return peak * (done + 1) / (warmup + 1)
    return peak * (total - done) / (total - warmup)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-6, 1.0), st.integers(0, 10_000), st.integers(1, 1_000_000), st.floats(0.0, 1.2, exclude_max=True))
def test_linear_equals_the_oracle(peak, warmup, total, share):
    done = int(total * share)
    rate = float(LinearWarmupDecay(peak, warmup, total)(done))
    assert rate == pytest.approx(oracle_rate(peak, warmup, total, done), rel=1e-4, abs=peak * 1e-6)


def test_linear_at_its_boundaries():
    schedule = LinearWarmupDecay(1.0, 4, 10)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates, [0.2, 0.4, 0.6, 0.8, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0, 0], rtol=1e-6)
    assert float(LinearWarmupDecay(1.0, 0, 10)(0)) == 1.0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1000), st.integers(1, 10_000), st.floats(0.0, 1.2, exclude_max=True))
def test_original_equals_its_formula(warmup, total, share):
    """`create_optimizer`: polynomial decay over all steps, replaced by step / warm-up before the warm-up's end."""
    done = int(total * share)
    expected = done / warmup if done < warmup else max(0.0, 1 - done / total)
    assert float(OriginalWarmupDecay(1.0, warmup, total)(done)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(1, 200), st.integers(0, 200), st.floats(0.0, 1.2, exclude_max=True))
def test_trapezoidal_equals_its_formula(warmup, total, decay, share):
    done, decay = int(total * share), min(decay, total)
    parts = [(done + 1) / (warmup + 1), 1.0]
    parts += [(total - done) / decay] if decay else []
    expected = 0.0 if done >= total and decay else min(parts) if done < total else 0.0
    assert float(Trapezoidal(2.0, warmup, total, decay)(done)) == pytest.approx(2 * expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("decay_steps", "expected"), [(-1, 8), (5, 5), (0, 0), (100, 40)])
def test_default_decay_is_a_fifth_of_the_steps(decay_steps, expected):
    config = TrainingConfig(schedule="trapezoidal", decay_steps=decay_steps)
    schedule = make_schedule(config, 40)
    assert isinstance(schedule, Trapezoidal)
    assert schedule.decay_steps == expected


@pytest.mark.parametrize(("first", "second"), [(40, 80), (50, 60)])
def test_rates_before_both_decays_do_not_depend_on_the_number_of_steps(first, second):
    rates = [[float(Trapezoidal(1.0, 4, total, 10)(step)) for step in range(first)] for total in (first, second)]
    assert rates[0][: first - 10] == rates[1][: first - 10]
    assert rates[0] != rates[1]


@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_survives_serialization(kind):
    schedule = make_schedule(TrainingConfig(schedule=kind, learning_rate=3e-4, warmup_steps=7), 50)
    restored = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert isinstance(restored, SCHEDULES[kind])
    assert restored.get_config() == schedule.get_config()


@pytest.mark.parametrize(("warmup", "total"), [(-1, 10), (0, 0)])
def test_invalid_numbers_of_steps_are_refused(warmup, total):
    for kind in (LinearWarmupDecay, OriginalWarmupDecay):
        with pytest.raises(ValueError, match="Received"):
            kind(1.0, warmup, total)
    with pytest.raises(ValueError, match="Received"):
        Trapezoidal(1.0, warmup, total, 0)
    with pytest.raises(ValueError, match="`decay_steps` .*Received: 11"):
        Trapezoidal(1.0, 0, 10, 11)
