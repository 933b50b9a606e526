"""Java job servers of Beam's runners for Flink and Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)

from bert_tf.config import ConfigError

PORTABLE_RUNNERS = ("FlinkRunner", "SparkRunner", "PortableRunner")
# Kryo, Flink's serializer, accesses private fields of collections; for Spark, Beam sets the required flags itself.
_FLINK_JVM_PROPERTY = "--job_server_jvm_properties=--add-opens=java.base/java.util=ALL-UNNAMED"
_WITH_PARENT = str(Path(__file__).with_name("die_with_parent.py"))
_CACHE_MILLISECONDS = 600_000
_LOCAL_SPARK = re.compile(r"local(\[.+\])?$")


def cached_job_server(runner: str) -> Path:
    """Returns the path of the jar that `make job-servers` downloads for `FlinkRunner` or `SparkRunner`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = runner.removesuffix("Runner").lower()
    return cache / "bert_tf" / "job_servers" / name / f"{name}-job-server.jar"


def portable_flags(runner: str, beam_args: Sequence[str], cores: int) -> list[str]:
    """Returns additional flags of a portable runner: its job server, and one worker per core on this machine.

    Beam's flags of the command line, `beam_args`, take precedence. Raises ConfigError if the job server or Java is
    missing.
    """
    options = PipelineOptions(list(beam_args))
    flags = [] if options.view_as(PortableOptions).job_endpoint else _job_server_flags(runner, options)
    if options.view_as(PortableOptions).environment_type not in (None, "LOOPBACK"):
        return flags
    flink = options.view_as(FlinkRunnerOptions).flink_master
    spark = options.view_as(SparkRunnerOptions).spark_master_url
    local_values: dict[str, object] = {"sdk_worker_parallelism": cores}
    if runner == "FlinkRunner" and flink in ("[local]", "[auto]"):
        if flink == "[local]":  # "[auto]" may be a cluster whose client started this program
            local_values["parallelism"] = cores
    elif runner == "SparkRunner" and _LOCAL_SPARK.match(spark):
        # Without a cache Spark starts new workers for every stage, which takes seconds.
        local_values |= {"spark_master_url": f"local[{cores}]", "environment_cache_millis": _CACHE_MILLISECONDS}
    else:
        return flags
    # Threads of the submitting process would share its interpreter lock and end with it.
    flags.append("--experiments=use_loopback_process_worker")
    return flags + [f"--{name}={value}" for name, value in local_values.items() if not given(beam_args, f"--{name}")]


def _job_server_flags(runner: str, options: PipelineOptions) -> list[str]:
    if runner == "PortableRunner":
        raise ConfigError("--runner=PortableRunner requires --job_endpoint=HOST:PORT.")
    java = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(java):
        raise ConfigError(
            f"--runner={runner} requires Java 11 or 17 for its job server. Received: {java!r}, which is not installed."
        )
    flags = []
    flink = runner == "FlinkRunner"
    if flink and not options.view_as(JobServerOptions).job_server_jvm_properties:
        flags.append(_FLINK_JVM_PROPERTY)
    jar = (
        options.view_as(FlinkRunnerOptions).flink_job_server_jar
        if flink
        else options.view_as(SparkRunnerOptions).spark_job_server_jar
    )
    if not jar:
        cached = cached_job_server(runner)
        flag = f"--{runner.removesuffix('Runner').lower()}_job_server_jar"
        if not cached.is_file():
            raise ConfigError(
                f"--runner={runner} requires Beam's job server, but {cached} does not exist. Run `make job-servers` "
                f"to download it (docs/runners.md), or set {flag}=JAR or --job_endpoint=HOST:PORT."
            )
        flags.append(f"{flag}={cached}")
    elif "://" not in jar and not Path(jar).is_file():
        raise ConfigError(f"no job server {jar}. Run `make job-servers` to download one (docs/runners.md).")
    return flags


@contextlib.contextmanager
def job_server_of(runner: Any, log: TextIO) -> Iterator[None]:
    """Stops the job server of a runner when the block ends; Beam would stop it only when Python exits.

    The output of the job server is written to `log`.
    """
    make = runner.default_job_server
    with contextlib.ExitStack() as stack:
        handler = logging.StreamHandler(log)
        for name in ("FlinkJarJobServer", "SparkJarJobServer"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)

        def make_and_remember(options: PipelineOptions) -> Any:
            java = options.view_as(JobServerOptions)
            java.job_server_jvm_properties = [
                _WITH_PARENT,
                java.job_server_java_launcher,
                *java.job_server_jvm_properties,
            ]
            java.job_server_java_launcher = sys.executable
            server = make(options)
            stack.callback(server.stop)
            return server

        runner.default_job_server = make_and_remember
        yield


def given(args: Sequence[str], flag: str) -> bool:
    """Returns True if `args` contains `flag`, as `flag value` or `flag=value`."""
    return any(arg == flag or arg.startswith(f"{flag}=") for arg in args)
