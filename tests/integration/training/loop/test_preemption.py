"""Signals before the first step, and while TensorFlow blocks the main thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.training.loop.preemption import PreemptionHandler
from tests.support.training.tiny_run import run
from tests.support.training.workers import PROGRAM


def hanging(output: Path, *settings: str) -> subprocess.Popen:
    """Starts a run and returns its process when it waits for data."""
    argv = [sys.executable, *PROGRAM, str(output), *settings]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "hanging\n" in iter(process.stderr.readline, "")
    return process


def test_a_signal_before_the_first_step_stops_at_once(tmp_path):
    def at_step(step, made):
        if step == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return made

    former = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    with pytest.raises(SystemExit, match="143"):
        run(tmp_path / "run", at_step=at_step)
    assert (signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)) == former
    assert not (tmp_path / "run/checkpoints").exists()


def test_signal_stops_a_run_that_waits_for_its_first_batch(tmp_path):
    process = hanging(tmp_path / "run", "hang_at=0")
    process.send_signal(signal.SIGTERM)
    assert "; nothing is lost." in process.communicate(timeout=120)[1]
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
def test_second_signal_stops_a_run_that_waits_for_a_later_batch(tmp_path):
    """The first signal waits for the step to end, because the data may still arrive."""
    process = hanging(tmp_path / "run", "hang_at=7")
    # The batch is built while the previous step runs.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=8)
    process.send_signal(signal.SIGTERM)
    assert "the steps since the last checkpoint are lost" in process.communicate(timeout=120)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "run/checkpoints/step-00000005").is_dir()


@pytest.mark.parametrize(
    ("mine", "others", "agreed"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_all_processes_stop_when_one_gets_a_signal(mine, others, agreed):
    preemption = PreemptionHandler(lambda told, milliseconds: (told or others, milliseconds))
    preemption.signal = signal.SIGTERM if mine else None
    assert not preemption, "nothing is agreed yet"
    preemption.step_ended()
    assert bool(preemption) is agreed
    if agreed:
        with pytest.raises(SystemExit, match="143"):
            preemption.act()
