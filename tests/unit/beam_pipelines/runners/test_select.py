"""Runners without running them: flags, messages, dry runs, templates, and deployment files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.worker.sdk_worker_main import _load_pipeline_options
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from beam_pipelines.errors import InputError, PipelineError
from beam_pipelines.runners import job_servers, worker_processes
from beam_pipelines.runners import select as runners
from beam_pipelines.runners.select import is_dry_run, runner_flags
from bert_tf.config import ConfigError
from tests.support.beam_pipelines.runner_samples import REPOSITORY

DEPLOYMENT = REPOSITORY / "deployment"
JAVA_OPENS = ["--add-opens=java.base/java.util=ALL-UNNAMED"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets up a cache with both job servers, and a machine with Java and three cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for runner in ("FlinkRunner", "SparkRunner"):
        jar = job_servers.cached_job_server(runner)
        jar.parent.mkdir(parents=True)
        jar.touch()
    monkeypatch.setattr(job_servers.shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setattr(runners.os, "sched_getaffinity", lambda _: {0, 1, 2})
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            ["--runner=FlinkRunner", "--flink_master=[local]"],
            {
                "flink_job_server_jar": "{cache}/bert_tf/job_servers/flink/flink-job-server.jar",
                "job_server_jvm_properties": JAVA_OPENS,
                "parallelism": 3,
                "sdk_worker_parallelism": "3",
                "experiments": ["use_loopback_process_worker"],
            },
        ),
        (
            ["--runner=FlinkRunner", "--flink_master=[local]", "--parallelism=1", "--sdk_worker_parallelism=2"],
            {"parallelism": 1, "sdk_worker_parallelism": "2"},
        ),
        (["--runner=FlinkRunner", "--job_server_jvm_properties=-Xmx2g"], {"job_server_jvm_properties": ["-Xmx2g"]}),
        (["--runner=FlinkRunner", "--job_endpoint=h:1"], {"flink_job_server_jar": None}),
        (
            ["--runner=FlinkRunner", "--flink_master=host:8081", "--environment_type=DOCKER"],
            {"parallelism": -1, "experiments": None, "sdk_worker_parallelism": 1},
        ),
        (
            ["--runner=FlinkRunner", "--flink_master=[local]", "--environment_type=EXTERNAL"],
            {"parallelism": -1, "experiments": None},
        ),
        (
            ["--runner=SparkRunner"],
            {
                "spark_job_server_jar": "{cache}/bert_tf/job_servers/spark/spark-job-server.jar",
                "spark_master_url": "local[3]",
                "environment_cache_millis": "600000",
                "job_server_jvm_properties": [],
            },
        ),
        (["--runner=SparkRunner", "--spark_master_url=spark://host:7077"], {"experiments": None}),
        (["--runner=DataflowRunner"], {"save_main_session": False, "number_of_worker_harness_threads": 1}),
        (
            ["--runner=DataflowRunner", "--number_of_worker_harness_threads=4"],
            {"number_of_worker_harness_threads": 4},
        ),
        (["--runner=DataflowRunner", "--save_main_session"], {"save_main_session": True}),
    ],
)
def test_runner_flags_are_completed(cache: Path, flags: list[str], expected: dict[str, object]) -> None:
    options = PipelineOptions([*flags, *runner_flags(flags, 0)]).get_all_options()
    found = {name: options[name] for name in expected}
    assert json.loads(json.dumps(found).replace(str(cache), "{cache}")) == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runner=FlinkRunner"], r"requires Beam's job server.*`make job-servers`.*--flink_job_server_jar=JAR"),
        (["--runner=SparkRunner"], r"requires Beam's job server.*--spark_job_server_jar=JAR"),
        (["--runner=FlinkRunner", "--flink_job_server_jar=/none.jar"], r"no job server /none.jar"),
        (["--runner=FlinkRunner", "--job_server_java_launcher=no-java"], r"requires Java.*Received: 'no-java'"),
        (["--runner=PortableRunner"], r"requires --job_endpoint"),
        (["--runner=DataflowRunner"], r"object stores.*Received: /data/out$"),
    ],
)
def test_missing_requirements_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(job_servers.shutil, "which", lambda program: program if program == "java" else None)
    with pytest.raises(ConfigError, match=message):
        runner_flags(flags, 0, ["gs://bucket/in", "/data/out"])


def java_text(python: str) -> str:
    """Returns the message of Flink for an error in a worker."""
    return (
        "Pipeline job-1 failed in state FAILED: java.lang.RuntimeException: Error received from SDK harness for "
        f'instruction 7: Traceback (most recent call last):\n  File "x.py", line 1, in f\n{python}'
        " [while running 'ReadCorpus/Read']\n\n\tat org.apache.beam.runners.Client.onNext(Client.java:180)\n"
        "Caused by: java.lang.IllegalStateException: closed"
    )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (java_text("beam_pipelines.errors.InputError: a.gz: truncated"), InputError, "a.gz: truncated"),
        (java_text("FileNotFoundError: [Errno 2] No such file: 'a'"), FileNotFoundError, "[Errno 2] No such file: 'a'"),
        (java_text("OSError: [Errno 28] No space left"), OSError, "[Errno 28] No space left"),
        (java_text("RuntimeError: OSError: [Errno 28] No space left"), OSError, "[Errno 28] No space left"),
        (java_text("KeyError: 3"), PipelineError, "KeyError: 3"),
        (java_text("MemoryError"), MemoryError, "a worker ran out of memory"),
        (
            "Pipeline job-1 failed in state FAILED: org.x.StatusRuntimeException: CANCELLED: client cancelled",
            PipelineError,
            "a worker process was lost (killed, or its machine is out of memory); run the same command again to "
            "continue.",
        ),
        (worker_processes._obituary(-9), PipelineError, "a worker process was lost (SIGKILL: the machine may be out "
         "of memory); run the same command again to continue."),
        (worker_processes._obituary(-11), PipelineError, "WorkerError: a worker process was lost (SIGSEGV)"),
        (worker_processes._obituary(3), PipelineError, "WorkerError: a worker process was lost (exit status 3)"),
        ("KeyboardInterrupt\n", KeyboardInterrupt, ""),
    ],
)  # fmt: skip
def test_failures_are_reported_in_one_line(text: str, kind: type[BaseException], message: str) -> None:
    failure = runners._failure(RuntimeError(text))
    assert isinstance(failure, kind)
    assert str(failure) == message


def test_lost_job_server_is_reported_in_one_line() -> None:
    failure = runners._failure(grpc.RpcError("UNAVAILABLE:\nSocket closed"))
    assert isinstance(failure, PipelineError)
    assert str(failure) == "the connection to the job server broke; run the same command again to continue."


def test_local_workers_have_the_options_of_the_pipeline() -> None:
    given = {"beam:option:hdfs_host:v1": "name", "beam:option:default_sdk_harness_log_level:v1": "INFO"}
    provided = beam_provision_api_pb2.ProvisionInfo(pipeline_options=ParseDict(given, Struct()))
    worker = object.__new__(worker_processes.WatchedWorker)
    worker.provision_info = SimpleNamespace(provision_info=provided)
    assert _load_pipeline_options(worker._options()) == {
        "hdfs_host": "name",
        "default_sdk_harness_log_level": "CRITICAL",
    }


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", True), ("false", False)])
def test_dry_run_must_be_true_or_false(value: str, expected: bool) -> None:
    assert is_dry_run(PipelineOptions([f"--dry_run={value}"])) is expected
    with pytest.raises(ConfigError, match="--dry_run must be true or false"):
        is_dry_run(PipelineOptions(["--dry_run=perhaps"]))


@pytest.mark.parametrize("runner", ["flink", "spark"])
def test_every_jar_is_pinned(runner: str) -> None:
    lines = (DEPLOYMENT / "job_servers" / f"{runner}.sha256").read_text().splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in lines)
    names = [line.split()[1] for line in lines]
    assert names == sorted(set(names))
    version = re.search(r"<beam.version>(.+)</beam.version>", (DEPLOYMENT / "job_servers" / "pom.xml").read_text())
    assert version
    assert any(re.fullmatch(rf"beam-runners-{runner}-[\d.]+-{re.escape(version[1])}\.jar", name) for name in names)
