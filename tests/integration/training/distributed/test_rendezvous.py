"""Workers wait for each other and stop together."""

from __future__ import annotations

import signal

import pytest

from tests.support.training.workers import free_ports, start


@pytest.mark.slow
def test_run_ends_if_the_other_worker_is_missing(tmp_path):
    worker = start(tmp_path / "run", free_ports(2), 0, "worker_timeout=3")
    assert "TrainingError: no answer from localhost:" in worker.communicate(timeout=300)[1]
    assert worker.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "signalled"),
    [("signal_at=7", {0}), ("signal_at=7", {0, 1}), ("signal_at_evaluation=1", {0}), ("signal_at_evaluation=1", {1})],
)
def test_signal_to_some_workers_checkpoints_and_stops_all(tmp_path, signalled, moment):
    ports, settings = free_ports(2), ("steps=400", "evaluate_every=8", "log_every=4")
    workers = [start(tmp_path / "run", ports, i, *settings, *([moment] * (i in signalled))) for i in range(2)]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2, errors
    steps = {error.split("interrupted after step ")[1].split()[0] for error in errors}
    assert len(steps) == 1, errors
    assert (tmp_path / f"run/checkpoints/step-{int(min(steps)):08d}/state.json").is_file()
    if signalled == {1}:
        workers = [start(tmp_path / "run", ports, i, *settings, "signal_at=20") for i in range(2)]
        errors = [worker.communicate(timeout=300)[1] for worker in workers]
        assert all(f"resuming after step {min(steps)} of 400" in error for error in errors), errors


@pytest.mark.slow
def test_workers_that_read_different_checkpoints_are_refused(tmp_path):
    ports = free_ports(2)
    whole = [start(tmp_path / "first", ports, i) for i in range(2)]
    assert [worker.wait(timeout=300) for worker in whole] == [0, 0]
    (tmp_path / "first/checkpoints/step-00000012").rename(tmp_path / "step-00000012")
    workers = [start(tmp_path / name, ports, i) for i, name in enumerate(("first", "second"))]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [1, 1]
    for error in errors:
        assert f"localhost:{ports[0]} after step 10, localhost:{ports[1]} after step 0" in error
