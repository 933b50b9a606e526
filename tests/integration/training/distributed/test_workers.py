"""Multi-worker training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bert_tf.config import ConfigError
from tests.support.training.tiny_run import CONFIG, run
from tests.support.training.workers import both, free_ports, start

TASK = {"type": "worker", "index": 1}


def config(workers=("a:1", "b:2"), **task):
    return json.dumps({"cluster": {"worker": list(workers)}, "task": TASK | task})


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    one = run(tmp_path / "one", CONFIG, dropout=0.0)
    summaries = both(tmp_path / "two", "dropout=0")
    assert summaries[0]["weights_sha256"] == summaries[1]["weights_sha256"]
    for summary in summaries:
        assert summary["loss"] == pytest.approx(one.loss, rel=1e-5)
        assert summary["evaluation"] == pytest.approx(one.evaluation, rel=1e-5)
    with np.load(tmp_path / "two.0.npz") as weights:
        for variable, array in zip(one.model.trainable_weights, weights.values(), strict=True):
            np.testing.assert_allclose(variable.numpy(), array, atol=1e-5, rtol=1e-5)
    lines = (tmp_path / "two/history.jsonl").read_text().splitlines()
    assert len(lines) == len((tmp_path / "one/history.jsonl").read_text().splitlines()), "one process writes"


@pytest.mark.slow
def test_two_processes_resume_exactly(tmp_path):
    settings = ("accumulate=2", 'optimizer="muon"')
    whole = both(tmp_path / "whole", *settings)[0]
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    for step in (10, 12):
        shutil.rmtree(tmp_path / f"broken/checkpoints/step-{step:08d}")
    assert both(tmp_path / "broken", *settings)[0]["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.slow
def test_death_of_a_worker_ends_the_others_with_an_error(tmp_path):
    ports = free_ports(2)
    workers = [start(tmp_path / "run", ports, 0), start(tmp_path / "run", ports, 1, "kill_at=8")]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert workers[1].returncode == -9
    assert workers[0].returncode != 0
    assert "another worker was lost (localhost:" in errors[0]


def test_replicas_are_counted_by_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config())
    with pytest.raises(ConfigError, match="multi_worker takes all devices of every worker. Received: 2"):
        run(tmp_path, replace(CONFIG, strategy="multi_worker", num_replicas=2))
