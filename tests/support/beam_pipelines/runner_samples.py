"""Helpers for tests of real runners: a corpus, processes to start and stop, and the environment of workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines.runners.job_servers import cached_job_server
from tests.support.beam_pipelines.samples import documents, write_corpus, write_vocabulary
from tests.support.paths import REPOSITORY

# `make test-flink` installs the project there, not editable, with Beam's libraries for Google Cloud.
WORKERS = Path(os.environ.get("BERT_TF_WORKERS") or REPOSITORY / ".venv" / "workers").absolute()
MANY_SHARDS = 100
FLINK = ["--runner=FlinkRunner", "--flink_master=[local]"]
# One worker, and Java options for a quick start instead of throughput.
SMALL_FLINK = [
    *FLINK,
    "--sdk_worker_parallelism=1",
    "--job_server_jvm_properties=--add-opens=java.base/java.util=ALL-UNNAMED",
    "--job_server_jvm_properties=-XX:TieredStopAtLevel=1",
    "--job_server_jvm_properties=-XX:+UseSerialGC",
]


def needs_job_server(runner: str) -> pytest.MarkDecorator:
    """Skips the test if `make job-servers` was not run."""
    present = cached_job_server(runner).is_file() and shutil.which("java")
    return pytest.mark.skipif(not present, reason=f"needs Java and the job server of {runner}: `make job-servers`")


needs_workers = pytest.mark.skipif(
    not (WORKERS / "bin" / "python").exists(),
    reason=f"needs a virtual environment for workers in {WORKERS}: `make workers`",
)


def data_flags(home: Path, count: int = 300) -> list[str]:
    """Writes a corpus to `home`; returns the flags to build data from it."""
    glob = write_corpus(home / "corpus", documents(count))
    return [f"--input={glob}", f"--vocabulary={write_vocabulary(home / 'vocab.txt')}", "--max_seq_length=32"]


def start(flags: list[str]) -> subprocess.Popen[str]:
    """Starts `create_pretraining_data` as a process group leader, as a shell does."""
    arguments = [sys.executable, "-m", "beam_pipelines.create_pretraining_data", *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def wait_for_shard(process: subprocess.Popen[str], output: Path) -> None:
    """Waits until one shard is complete or the process has ended."""
    while process.poll() is None and not any((output / ".reports").glob("train-*.json")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.01)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Returns the process ids of the Beam workers of `process`."""
    workers = []
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            # The process may have ended meanwhile.
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"worker_main" in command or b"sdk_worker" in command:
                    workers.append(int(child))
    return workers


@contextlib.contextmanager
def worker_pool(scratch: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs a worker pool from `WORKERS` in an empty directory, without the environment of this process.

    Yields:
        The address of the pool, and the process.
    """
    scratch.mkdir()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    arguments = [WORKERS / "bin" / "python", "-m", "apache_beam.runners.worker.worker_pool_main"]
    environment = {
        "PATH": os.pathsep.join([str(WORKERS / "bin"), os.defpath]),
        "HOME": str(scratch),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_NUM_INTRAOP_THREADS": "1",
    }
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(
            [*arguments, f"--service_port={port}"], cwd=scratch, env=environment, stdout=log, stderr=log, text=True
        )
        try:
            while process.poll() is None and not _listens(port):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.01)
            yield f"localhost:{port}", process
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0
