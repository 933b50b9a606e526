"""Runs of two JAX processes equal those of one process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.training.workers import PROGRAM, both, free_ports, start

pytest.importorskip("jax")

JAX = {"KERAS_BACKEND": "jax"}


def one_process(output: Path, *settings: str, devices: int) -> dict:
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    argv = [sys.executable, *PROGRAM, str(output), *settings]
    done = subprocess.run(argv, env=os.environ | JAX | flags, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_two_processes_equal_one_bit_for_bit(tmp_path):
    """One process with two devices takes the same steps, with dropout; one device sums the rows in another order."""
    ports = free_ports(2)
    workers = [start(tmp_path / "two", ports, 0, **JAX), start(tmp_path / "two", ports, 1, "kill_at=11", **JAX)]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [1, -9], errors
    assert f"another worker was lost (localhost:{ports[1]})" in errors[0]
    # Batches are made some steps ahead.
    assert (tmp_path / "two/checkpoints/step-00000005").is_dir()
    resumed = both(tmp_path / "two", **JAX)
    assert resumed[0] | {"tokens_per_second": 0} == resumed[1] | {"tokens_per_second": 0}
    one = one_process(tmp_path / "one", 'strategy="mirrored"', devices=2)
    assert resumed[0]["weights_sha256"] == one["weights_sha256"]
    assert resumed[0]["evaluation"] == one["evaluation"]
    history = [json.loads(line) for line in (tmp_path / "two/history.jsonl").read_text().splitlines()]
    assert [line["step"] for line in history] == [4, 5, 8, 10, 12, 12], "one process writes"
    for step in (10, 12):
        shutil.rmtree(tmp_path / f"two/checkpoints/step-{step:08d}")
    # One process resumes what two have written.
    single = one_process(tmp_path / "two", devices=1)
    assert single["loss"] == pytest.approx(one["loss"], rel=1e-5)


@pytest.mark.slow
def test_signal_to_one_process_stops_all_at_the_same_step(tmp_path):
    """With JAX's own variables instead of `TF_CONFIG`."""
    address = f"localhost:{free_ports(1)[0]}"
    workers = [
        start(
            tmp_path / "run", [], index, "steps=400", *(["signal_at=7"] * index), TF_CONFIG="",
            JAX_COORDINATOR_ADDRESS=address, JAX_NUM_PROCESSES="2", JAX_PROCESS_ID=str(index), **JAX,
        )
        for index in range(2)
    ]  # fmt: skip
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [128 + signal.SIGTERM] * 2, errors
    steps = {error.split("interrupted after step ")[1].split()[0] for error in errors}
    assert len(steps) == 1, errors
    assert (tmp_path / f"run/checkpoints/step-{int(min(steps)):08d}/state.json").is_file()
