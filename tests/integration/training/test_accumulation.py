"""Training steps in several parts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bert_tf.config import ConfigError
from tests.support.training.tiny_run import CONFIG, run
from tests.support.training.workers import in_subprocess


def weights(result):
    return [variable.numpy() for variable in result.model.trainable_weights]


@pytest.fixture(scope="module", params=["adamw", "muon"])
def config(request):
    return replace(CONFIG, optimizer=request.param)


@pytest.fixture(scope="module")
def whole_batch_run(tmp_path_factory, config):
    return run(tmp_path_factory.mktemp("whole"), config, dropout=0.0)


@pytest.mark.parametrize("parts", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_accumulated_gradients_equal_those_of_the_whole_batch(tmp_path, config, whole_batch_run, parts):
    """Most weights are in the first half, so the mean of the parts' means would differ."""
    result = run(tmp_path / "run", replace(config, accumulate=parts), dropout=0.0)
    assert result.loss == pytest.approx(whole_batch_run.loss, rel=1e-5)
    assert result.evaluation == pytest.approx(whole_batch_run.evaluation, rel=1e-5)
    for one, other in zip(weights(whole_batch_run), weights(result), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_compiled_parts_in_two_replicas(tmp_path, config, whole_batch_run):
    settings = (
        f'optimizer="{config.optimizer}"',
        'strategy="mirrored"',
        "num_replicas=2",
        "accumulate=2",
        "dropout=0",
        'jit_compile="true"',
    )
    made = in_subprocess(tmp_path / "two", *settings)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout.splitlines()[-1])["loss"] == pytest.approx(whole_batch_run.loss, rel=1e-5)
    with np.load(tmp_path / "two.npz") as arrays:
        for one, other in zip(weights(whole_batch_run), arrays.values(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


def test_indivisible_batch_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"`training.accumulate`. Received: 8, 1 and 3"):
        run(tmp_path / "run", replace(CONFIG, accumulate=3))
