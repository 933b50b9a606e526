"""Real Flink: a job server and a cluster in one Java process, workers in separate processes."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines import build_vocabulary, create_pretraining_data
from beam_pipelines.errors import InputError
from tests.support.beam_pipelines.runner_samples import (
    FLINK,
    MANY_SHARDS,
    SMALL_FLINK,
    WORKERS,
    data_flags,
    needs_job_server,
    needs_workers,
    start,
    wait_for_shard,
    worker_pool,
)
from tests.support.beam_pipelines.samples import contents, documents

pytestmark = [pytest.mark.runners, needs_job_server("FlinkRunner")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flink")


@pytest.fixture(scope="module")
def flags(home: Path) -> list[str]:
    return [*data_flags(home), "--num_shards=3"]


@pytest.fixture(scope="module")
def local(home: Path, flags: list[str]) -> Path:
    """Runs both pipelines in this process; writes `data` and `vocabulary.txt`."""
    folder = home / "local"
    create_pretraining_data.run([*flags, f"--output={folder / 'data'}"])
    build_vocabulary.run([*vocabulary_flags(flags), f"--output={folder / 'vocabulary.txt'}"])
    return folder


def vocabulary_flags(flags: list[str]) -> list[str]:
    return [flags[0], "--vocabulary_size=100"]


@pytest.fixture(params=["loopback", "external"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """Returns flags for workers on this machine: of this installation, or of an independent one."""
    if request.param == "loopback":
        yield FLINK
        return
    if not WORKERS.is_dir():
        pytest.skip(needs_workers.kwargs["reason"])
    with worker_pool(tmp_path / "pool") as (address, _):
        yield [*SMALL_FLINK, "--environment_type=EXTERNAL", f"--environment_config={address}", "--parallelism=2"]


def test_data_equals_that_of_a_local_run(
    tmp_path: Path, flags: list[str], local: Path, environment: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    summary = create_pretraining_data.run([*flags, f"--output={tmp_path / 'data'}", *environment])
    assert summary["documents_read"] == 300
    assert contents(tmp_path / "data") == contents(local / "data")
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("data: ") for line in lines), "nothing of Java's, of Beam's or of TensorFlow's"
    done = [line for line in lines if line.startswith("data: done, parts 3/3, 300 documents")]
    assert len(done) == 1, "workers on this machine tell of their progress"


def test_vocabulary_equals_that_of_a_local_run(
    tmp_path: Path, flags: list[str], local: Path, environment: list[str]
) -> None:
    build_vocabulary.run([*vocabulary_flags(flags), f"--output={tmp_path / 'v.txt'}", *environment])
    assert (tmp_path / "v.txt").read_bytes() == (local / "vocabulary.txt").read_bytes()


@needs_workers
def test_external_workers_use_a_separate_installation(tmp_path: Path) -> None:
    code = "import beam_pipelines, bert_tf; print(beam_pipelines.__file__); print(bert_tf.__file__)"
    arguments = [WORKERS / "bin" / "python", "-c", code]
    printed = subprocess.run(arguments, cwd=tmp_path, env={}, capture_output=True, text=True, check=True).stdout
    assert all(Path(line).is_relative_to(WORKERS) for line in printed.splitlines())


def test_an_error_of_a_worker_is_one_line(tmp_path: Path, flags: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.txt.gz"
    cut.write_bytes(gzip.compress("\n".join(documents(50)).encode())[:-200])
    with pytest.raises(InputError, match=r"^\S*cut.txt.gz: .*truncated") as caught:
        create_pretraining_data.run([f"--input={cut}", *flags[1:], f"--output={tmp_path / 'data'}", *SMALL_FLINK])
    assert "\n" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        arguments = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
        subprocess.run(arguments, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_line(small_disk: Path, flags: list[str]) -> None:
    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device") as caught:
        create_pretraining_data.run([*flags, f"--output={small_disk / 'data'}", *SMALL_FLINK])
    assert "\n" not in str(caught.value)
    assert not list(small_disk.rglob("manifest.json"))


def test_ctrl_c_ends_everything(home: Path, flags: list[str]) -> None:
    output = home / "interrupted"
    process = start([*flags[:-1], f"--num_shards={MANY_SHARDS}", f"--output={output}", *SMALL_FLINK])
    wait_for_shard(process, output)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in errors.splitlines()[-1]
    with pytest.raises(ProcessLookupError):  # neither the job server nor a worker is left
        while True:
            os.killpg(process.pid, 0)
