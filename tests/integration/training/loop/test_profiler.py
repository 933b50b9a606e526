from __future__ import annotations

from dataclasses import replace

import pytest

from bert_tf.config import ConfigError
from bert_tf.training.fit import weights_sha256
from tests.support.training.tiny_run import CONFIG, run


def traces(output):
    return sorted((output / "tensorboard").glob("plugins/profile/*/*.xplane.pb"))


def test_steps_beyond_the_run_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"which has 12\. Received: '12:13'"):
        run(tmp_path / "run", replace(CONFIG, profile_steps="12:13"))
    assert list(tmp_path.iterdir()) == []


def test_trace_has_the_requested_steps_without_changing_the_run(tmp_path, capfd):
    plain = run(tmp_path / "plain")
    # The traced steps include a checkpoint.
    traced = run(tmp_path / "traced", replace(CONFIG, profile_steps="4:6"))
    assert traces(tmp_path / "plain") == []
    (trace,) = traces(tmp_path / "traced")
    assert trace.stat().st_size > 0
    assert f"trace of steps 4 to 6: {trace}" in capfd.readouterr().err
    assert weights_sha256(traced.model) == weights_sha256(plain.model)
    assert traced.evaluation == plain.evaluation
    assert (traced.step, traced.loss) == (plain.step, plain.loss)


def test_finished_run_accepts_other_profile_steps(tmp_path):
    config = replace(CONFIG, steps=2, log_every=1, checkpoint_every=2)
    run(tmp_path, config)
    assert run(tmp_path, replace(config, profile_steps="1:2")).step == 2
    assert traces(tmp_path) == []
