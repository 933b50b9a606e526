"""Moving averages of the weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bert_tf.training.evaluation.evaluate import evaluate_pretraining
from bert_tf.training.fit import weights_sha256
from tests.support.training.tiny_run import CONFIG, dataset, run

AVERAGED = replace(CONFIG, average=0.6, checkpoint_every=4, evaluate_every=4)


def weights_of(output, step):
    with np.load(output / f"checkpoints/step-{step:08d}/model.npz") as arrays:
        return [arrays[name] for name in arrays.files]


def test_the_result_is_the_average_of_the_weights_after_each_step(tmp_path):
    config = replace(AVERAGED, steps=3, checkpoint_every=1)
    result = run(tmp_path, config)
    steps = [weights_of(tmp_path, step) for step in (1, 2, 3)]
    trained = [np.shape(v) for v in result.model.variables]
    assert [w.shape for w in steps[0]] == trained
    for index, variable in enumerate(result.model.variables):
        if variable.trainable:
            first, second, third = (step[index] for step in steps)
            expected = 0.6 * (0.6 * first + 0.4 * second) + 0.4 * third
            np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_training_continues_with_unaveraged_weights(tmp_path, precision):
    config = replace(AVERAGED, precision=precision, optimizer="muon")
    result = run(tmp_path / "averaged", config)
    run(tmp_path / "plain", replace(config, average=0.0))
    for mine, theirs in zip(weights_of(tmp_path / "averaged", 12), weights_of(tmp_path / "plain", 12), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    again = evaluate_pretraining(result.model, dataset(8, 10_000, 10_003))
    assert again["mlm_loss"] == pytest.approx(result.evaluation["mlm_loss"], rel=1e-3)


@pytest.mark.slow
def test_a_stopped_run_has_the_same_averages(tmp_path):
    whole = run(tmp_path / "whole", AVERAGED)
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    for step in (8, 12):
        shutil.rmtree(tmp_path / f"stopped/checkpoints/step-{step:08d}")
    assert weights_sha256(run(tmp_path / "stopped", AVERAGED).model) == weights_sha256(whole.model)
    finished = run(tmp_path / "whole", AVERAGED)
    assert weights_sha256(finished.model) == weights_sha256(whole.model)
    lines = [json.loads(line) for line in (tmp_path / "whole/history.jsonl").read_text().splitlines()]
    assert finished.evaluation == {key: value for key, value in lines[-1].items() if key not in ("split", "step")}
