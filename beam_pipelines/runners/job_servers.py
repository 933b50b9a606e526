"""What Beam's runners for Flink and Spark need besides Python: a job server, which is a Java program."""

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
# Kryo, which Flink serializes with, looks into collections; Beam itself opens what Spark needs.
_FLINK_JVM_PROPERTY = "--job_server_jvm_properties=--add-opens=java.base/java.util=ALL-UNNAMED"
_WITH_PARENT = str(Path(__file__).with_name("die_with_parent.py"))
_CACHE_MILLISECONDS = 600_000
_LOCAL_SPARK = re.compile(r"local(\[.+\])?$")


def cached_job_server(runner: str) -> Path:
    """Returns where `make job-servers` puts the jar for `FlinkRunner` or `SparkRunner`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = runner.removesuffix("Runner").lower()
    return cache / "bert_tf" / "job_servers" / name / f"{name}-job-server.jar"


def portable_flags(runner: str, beam_args: Sequence[str], cores: int) -> list[str]:
    """Returns the flags to add so that `runner` finds its job server and, on this machine, uses all of it.

    Args:
        runner: one of `PORTABLE_RUNNERS`.
        beam_args: Beam's flags as the user gave them; they win.
        cores: workers to start where everything runs on this machine.

    Raises:
        ConfigError: when there is no job server, or no Java to run it with.
    """
    options = PipelineOptions(list(beam_args))
    flags = [] if options.view_as(PortableOptions).job_endpoint else _job_server_flags(runner, options)
    if options.view_as(PortableOptions).environment_type not in (None, "LOOPBACK"):
        return flags
    flink = options.view_as(FlinkRunnerOptions).flink_master
    spark = options.view_as(SparkRunnerOptions).spark_master_url
    here: dict[str, object] = {"sdk_worker_parallelism": cores}
    if runner == "FlinkRunner" and flink in ("[local]", "[auto]"):
        if flink == "[local]":  # "[auto]" may mean a cluster in whose client this program was started
            here["parallelism"] = cores
    elif runner == "SparkRunner" and _LOCAL_SPARK.match(spark):
        # Without a cache Spark starts new workers for every stage, which cost seconds.
        here |= {"spark_master_url": f"local[{cores}]", "environment_cache_millis": _CACHE_MILLISECONDS}
    else:
        return flags
    # Threads of the submitting process would share its one interpreter lock, and die with it.
    flags.append("--experiments=use_loopback_process_worker")
    return flags + [f"--{name}={value}" for name, value in here.items() if not given(beam_args, f"--{name}")]


def _job_server_flags(runner: str, options: PipelineOptions) -> list[str]:
    if runner == "PortableRunner":
        raise ConfigError("--runner=PortableRunner needs --job_endpoint=HOST:PORT.")
    java = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(java):
        raise ConfigError(f"--runner={runner} needs Java 11 or 17 to run its job server; there is no program {java!r}.")
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
                f"--runner={runner} needs Beam's job server, a Java program that {cached} does not hold: "
                f"`make job-servers` fetches it (docs/runners.md); or give {flag}=JAR or --job_endpoint=HOST:PORT."
            )
        flags.append(f"{flag}={cached}")
    elif "://" not in jar and not Path(jar).is_file():
        raise ConfigError(f"no job server {jar}: `make job-servers` fetches one (docs/runners.md).")
    return flags


@contextlib.contextmanager
def job_server_of(runner: Any, log: TextIO) -> Iterator[None]:
    """Ends the job server that `runner` starts when the block ends; Beam would let it run until Python ends.

    Args:
        runner: of Beam's, for Flink or Spark.
        log: where the job server's output goes.
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
    """Tells whether `flag` is among the arguments `args`, as `flag value` or `flag=value`."""
    return any(arg == flag or arg.startswith(f"{flag}=") for arg in args)
