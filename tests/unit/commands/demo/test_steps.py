"""Progress of the demo's steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bert_tf.commands.demo import steps as module
from bert_tf.commands.demo.steps import Steps


def test_the_time_left_follows_from_the_steps_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock: Iterator[float] = iter([0.0, 0.0, 20.0, 20.0, 20.5, 20.5, 50.5])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    steps = Steps([10.0, 40.0, 15.0])
    for title in ("twice as long", "reused", "last"):
        with steps.step(title):
            pass
    printed = capsys.readouterr().err
    assert re.findall(r"\[\d/3\] .*: about (.*)", printed) == ["10 s", "46 s", "17 s"]
    assert re.findall(r"about (.*) left", printed) == ["63 s", "17 s"]
