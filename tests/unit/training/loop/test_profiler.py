from __future__ import annotations

import contextlib

import pytest

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.training.loop.profiler import StepProfile


@pytest.mark.parametrize("text", ["5", "0:3", "4:3", "3:", ":3", "a:b", "1:2:3", "-1:3", " 1:2"])
def test_invalid_step_ranges_are_refused(text):
    with pytest.raises(ConfigError, match=r"training\.profile_steps.*first:last.*Received: "):
        TrainingConfig(profile_steps=text)


@pytest.mark.parametrize(("text", "steps"), [("", []), ("7:7", [7]), ("9:11", [9, 10, 11])])
def test_steps_are_counted_from_one_and_include_both_ends(text, steps):
    assert list(TrainingConfig(profile_steps=text).profiled_steps) == steps


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

    monkeypatch.setattr("bert_tf.training.loop.profiler._profiler", lambda: (lambda directory: Note("trace"), Note))
    finished = start
    waits = []
    profile = StepProfile(range(3, 5), tmp_path, lambda: finished, lambda: waits.append(finished + 1))
    while finished < 6:
        profile.on_train_batch_begin(0)
        profile.on_train_batch_end(0)
        said.append(("between", finished := finished + 1))
    steps = [event for step in range(began, 5) for event in (("begin", step), ("end", step))]
    assert [event for event in said if event[0] != "between"] == [("begin", "trace"), *steps, ("end", "trace")]
    assert said.index(("end", "trace")) < said.index(("between", 4))
    assert waits == list(range(began, 5)), "a traced step includes the work of the devices"


def test_a_trace_ends_with_the_run(tmp_path, monkeypatch):
    ended = []

    @contextlib.contextmanager
    def trace(directory):
        yield
        ended.append(directory)

    monkeypatch.setattr("bert_tf.training.loop.profiler._profiler", lambda: (trace, contextlib.nullcontext))
    profile = StepProfile(range(1, 5), tmp_path, lambda: 0, lambda: None)
    profile.on_train_batch_begin(0)
    profile.close()
    profile.close()
    assert ended == [str(tmp_path)]
