from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from training_tiny_run import CONFIG, run

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.fit import weights_sha256
from bert_tf.training.loop.profiler import StepProfile


def traces(output):
    return sorted((output / "tensorboard").glob("plugins/profile/*/*.xplane.pb"))


@pytest.mark.parametrize("text", ["5", "0:3", "4:3", "3:", ":3", "a:b", "1:2:3", "-1:3", " 1:2"])
def test_what_are_no_steps_is_refused(text):
    with pytest.raises(ConfigError, match=r"training\.profile_steps.*first:last.*Received: "):
        TrainingConfig(profile_steps=text)


@pytest.mark.parametrize(("text", "steps"), [("", []), ("7:7", [7]), ("9:11", [9, 10, 11])])
def test_steps_are_counted_from_one_and_include_both_ends(text, steps):
    assert list(TrainingConfig(profile_steps=text).profiled_steps) == steps


def test_steps_beyond_the_run_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"which has 12\. Received: '12:13'"):
        run(tmp_path / "run", replace(CONFIG, profile_steps="12:13"))
    assert list(tmp_path.iterdir()) == []


def test_the_trace_has_these_steps_and_the_run_is_none_other(tmp_path, capfd):
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


def test_a_finished_run_may_be_asked_again_with_other_steps(tmp_path):
    config = replace(CONFIG, steps=2, log_every=1, checkpoint_every=2)
    run(tmp_path, config)
    assert run(tmp_path, replace(config, profile_steps="1:2")).step == 2
    assert traces(tmp_path) == []


@pytest.mark.parametrize(("start", "began"), [(0, 3), (3, 4)])
def test_only_these_steps_are_traced(tmp_path, monkeypatch, start, began):
    """A run resumed within these steps traces the remaining ones; work between two steps is outside of every step."""
    said = []

    class Note:
        def __init__(self, *words):
            self.words = words

        def __enter__(self):
            said.append(("begin", *self.words))

        def __exit__(self, *error):
            said.append(("end", *self.words))

    monkeypatch.setattr("bert_tf.training.loop.profiler._trace", lambda directory: Note("trace"))
    monkeypatch.setattr("bert_tf.training.loop.profiler._named_step", lambda step: Note(step))
    finished = start
    profile = StepProfile(range(3, 5), tmp_path, lambda: finished)
    while finished < 6:
        profile.on_train_batch_begin(0)
        profile.on_train_batch_end(0, {"loss": 1.0})
        said.append(("between", finished := finished + 1))
    steps = [event for step in range(began, 5) for event in (("begin", step), ("end", step))]
    assert [event for event in said if event[0] != "between"] == [("begin", "trace"), *steps, ("end", "trace")]
    assert said.index(("end", "trace")) < said.index(("between", 4))


def test_a_trace_ends_with_the_run(tmp_path, monkeypatch):
    ended = []

    @contextlib.contextmanager
    def trace(directory):
        yield
        ended.append(directory)

    monkeypatch.setattr("bert_tf.training.loop.profiler._trace", trace)
    profile = StepProfile(range(1, 5), tmp_path, lambda: 0)
    profile.on_train_batch_begin(0)
    profile.close()
    profile.close()
    assert ended == [tmp_path]
