"""A killed worker ends the run at once; the same command builds the missing shards."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from beam_pipelines import create_pretraining_data
from tests.support.beam_pipelines.runner_samples import (
    MANY_SHARDS,
    SMALL_FLINK,
    data_flags,
    needs_job_server,
    needs_workers,
    start,
    wait_for_shard,
    worker_pool,
    workers_of,
)
from tests.support.beam_pipelines.samples import contents

LOCAL = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
ON_FLINK = [pytest.mark.runners, needs_job_server("FlinkRunner")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def flags(home: Path) -> list[str]:
    # Many passes, so that the run writes for a while after the first shard.
    return [*data_flags(home), f"--num_shards={MANY_SHARDS}", "--dupe_factor=40"]


@pytest.fixture(scope="module")
def uninterrupted(home: Path, flags: list[str]) -> Path:
    """Returns the data of an uninterrupted run."""
    create_pretraining_data.run([*flags, f"--output={home / 'whole'}"])
    return home / "whole"


def run_and_kill(flags: list[str], output: Path, pool: subprocess.Popen[str] | None = None) -> list[str]:
    """Kills one worker of `pool` or of the driver after the first shard; returns the output of the driver."""
    process = start([*flags, f"--output={output}"])
    wait_for_shard(process, output)
    workers = workers_of(pool or process)
    if workers:
        os.kill(workers[0], signal.SIGKILL)
    _, errors = process.communicate()
    assert workers, errors
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    made = list(output.glob("*.tfrecord"))
    assert 0 < len(made) < MANY_SHARDS
    assert not (output / "manifest.json").exists()
    return errors.splitlines()


def check_run_resumes(flags: list[str], output: Path, uninterrupted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    create_pretraining_data.run([*flags, f"--output={output}"])
    assert "shards are already complete" in capfd.readouterr().err
    assert contents(output) == contents(uninterrupted)


@pytest.mark.slow
def test_run_survives_a_killed_local_worker(
    home: Path, flags: list[str], uninterrupted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = home / "local"
    driver_output = run_and_kill([*flags, *LOCAL], output)
    assert driver_output[-1].startswith("error: a worker process was lost (SIGKILL: ")
    check_run_resumes(flags, output, uninterrupted, capfd)


@pytest.mark.slow
def test_ctrl_c_ends_local_workers(home: Path, flags: list[str]) -> None:
    output = home / "interrupted"
    process = start([*flags, *LOCAL, f"--output={output}"])
    wait_for_shard(process, output)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in errors.splitlines()[-1]
    assert len(workers) == 2
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            while True:
                os.kill(worker, 0)


@pytest.mark.slow
def test_run_resumes_at_once_after_its_driver_was_killed(
    home: Path, flags: list[str], uninterrupted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Workers are not awaited; they may write for some moments after their driver was killed."""
    output = home / "orphans"
    process = start([*flags, *LOCAL, f"--output={output}"])
    wait_for_shard(process, output)
    assert len(workers_of(process)) == 2
    process.kill()
    process.wait()
    check_run_resumes(flags, output, uninterrupted, capfd)
    process.communicate()
    assert contents(output) == contents(uninterrupted)


@pytest.mark.parametrize("runner", [[], pytest.param(SMALL_FLINK, marks=ON_FLINK)], ids=["local", "flink"])
def test_deleted_source_file_is_named(tmp_path: Path, runner: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The file exists while the run is planned and is deleted before a worker opens it."""
    flags = data_flags(tmp_path, 30)
    running = create_pretraining_data.running_pipeline

    def running_without_a_file(options: object) -> object:
        (tmp_path / "corpus" / "part-1.txt").unlink()
        return running(options)

    monkeypatch.setattr(create_pretraining_data, "running_pipeline", running_without_a_file)
    with pytest.raises((ValueError, OSError), match=r"part-1\.txt") as caught:
        create_pretraining_data.run([*flags, f"--output={tmp_path / 'data'}", *runner])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data" / "manifest.json").exists()


@pytest.mark.runners
@needs_job_server("FlinkRunner")
def test_run_survives_a_killed_flink_worker(
    home: Path, flags: list[str], uninterrupted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = home / "flink"
    driver_output = run_and_kill([*flags, *SMALL_FLINK], output)
    assert driver_output[-1].startswith("error: a worker process was lost (killed, ")
    check_run_resumes([*flags, *SMALL_FLINK], output, uninterrupted, capfd)


@pytest.mark.runners
@needs_workers
@needs_job_server("FlinkRunner")
def test_run_survives_a_killed_pool_worker(
    home: Path, flags: list[str], uninterrupted: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = home / "pool"
    with worker_pool(tmp_path / "pool") as (address, pool):
        external = ["--environment_type=EXTERNAL", f"--environment_config={address}", "--parallelism=2"]
        driver_output = run_and_kill([*flags, *SMALL_FLINK, *external], output, pool)
        assert driver_output[-1].startswith("error: a worker process was lost (killed, ")
        check_run_resumes([*flags, *SMALL_FLINK, *external], output, uninterrupted, capfd)
