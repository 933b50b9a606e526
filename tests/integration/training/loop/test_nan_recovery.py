"""NaN recovery: actions after losses that are not finite, and their repetition in resumed runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import ConfigError
from bert_tf.data.schema import MLM_LOGITS
from bert_tf.training.fit import fit, weights_sha256
from bert_tf.training.loop.checkpoints import TrainingError
from bert_tf.training.loop.nan_recovery import NanRecovery
from bert_tf.training.run_spec import RunSpec, TrainingData
from tests.support.training.tiny_run import CONFIG, batch, build_model, dataset, run


def poisoned(*steps):
    def at_step(step, original):
        if step in steps:
            original[2][MLM_LOGITS][0, 0] = np.nan
        return original

    return at_step


def without(*steps):
    """Returns batches of a corpus without those of `steps`."""
    left = [step for step in range(200) if step not in steps]
    return lambda number, original: batch(left[number], CONFIG.batch_size) if number < 200 - len(steps) else original


@settings(deadline=None)
@given(st.sets(st.integers(0, 12)), st.integers(0, 8))
def test_skipped_batches_are_left_out(skipped, start):
    numbers = [number for number in range(30) if number not in skipped]
    recovery = NanRecovery(sorted(skipped))
    assert [recovery.batch_of(step) for step in range(8)] == numbers[:8]
    data = TrainingData(lambda step: tf.data.Dataset.range(step, 30)).without(recovery)
    dataset = data.from_step(start)
    assert list(dataset.as_numpy_iterator()) == numbers[start:]


@pytest.mark.slow
@pytest.mark.parametrize("bad", [(7,), pytest.param((3, 7, 8, 11), marks=pytest.mark.slow)])
def test_skipping_equals_a_run_without_the_batch(tmp_path, capfd, bad):
    config = replace(CONFIG, on_nan="skip")
    result = run(tmp_path / "run", config, at_step=poisoned(*bad))
    stderr = capfd.readouterr().err
    for step in bad:
        assert f"skips batch {step}" in stderr
    clean = run(tmp_path / "clean", CONFIG, at_step=without(*bad))
    assert weights_sha256(result.model) == weights_sha256(clean.model)
    assert json.loads((tmp_path / "run/detours.json").read_text()) == {"skipped": list(bad), "halved": []}
    # A run resumed before the last skipped batch skips it again.
    for step in (10, 12):
        shutil.rmtree(tmp_path / f"run/checkpoints/step-{step:08d}")
    again = run(tmp_path / "run", config, at_step=poisoned(*bad))
    assert weights_sha256(again.model) == weights_sha256(clean.model)
    assert "skips batch" not in capfd.readouterr().err


def test_halving_resumes_from_the_checkpoint_with_half_the_learning_rate(tmp_path):
    """The batch is bad on the first pass only, as if a high learning rate had caused the divergence."""
    met = []

    def once(step, original):
        if step == 7 and not met:
            met.append(step)
            original[2][MLM_LOGITS][0, 0] = np.nan
        return original

    config = replace(CONFIG, on_nan="halve", log_every=1)
    run(tmp_path / "run", config, at_step=once)
    run(tmp_path / "clean", config)

    def rates(name):
        lines = map(json.loads, (tmp_path / name / "history.jsonl").read_text().splitlines())
        return {line["step"]: line["learning_rate"] for line in lines if line["split"] == "train"}

    assert rates("run") == pytest.approx({s: rate * (0.5 if s > 5 else 1.0) for s, rate in rates("clean").items()})


@pytest.mark.slow
def test_recovery_without_a_checkpoint_restarts_the_run(tmp_path):
    result = run(tmp_path / "run", replace(CONFIG, on_nan="skip"), at_step=poisoned(1))
    assert weights_sha256(result.model) == weights_sha256(run(tmp_path / "clean", at_step=without(1)).model)


def test_nonfinite_gradient_is_handled_as_a_nonfinite_loss(tmp_path):
    """The square root of zero is finite, but its gradient is not."""

    def build():
        model = build_model()
        outputs = dict(model.output)
        outputs[MLM_LOGITS] = outputs[MLM_LOGITS] + keras.ops.sqrt(outputs[MLM_LOGITS] * 0.0)
        return keras.Model(model.input, outputs)

    with pytest.raises(TrainingError, match="step 1: .*gradient is not finite"):
        fit(RunSpec(build, TrainingData(lambda start: dataset(8, start))), CONFIG, tmp_path)


@pytest.mark.slow
def test_number_of_recoveries_is_limited(tmp_path):
    with pytest.raises(TrainingError, match="step 3: "):
        run(tmp_path / "run", replace(CONFIG, on_nan="halve", checkpoint_every=2), at_step=poisoned(2))
    assert json.loads((tmp_path / "run/detours.json").read_text())["halved"] == [2] * 10


@pytest.mark.parametrize("content", ["", "[]", '{"skipped": ["x"], "halved": []}', '{"skipped": []}'])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "detours.json").write_text(content)
    with pytest.raises(ConfigError, match=r"detours.json: is damaged"):
        NanRecovery.load(tmp_path)
