"""Selects the runner and reports its failures."""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
import re
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    TestOptions,
)
from apache_beam.runners.runner import PipelineState

from beam_pipelines.errors import InputError, PipelineError
from beam_pipelines.output.storage import is_local
from beam_pipelines.runners.job_servers import PORTABLE_RUNNERS, given, job_server_of, portable_flags
from beam_pipelines.runners.worker_processes import RESUME  # importing it registers the local worker processes
from bert_tf.config import ConfigError
from bert_tf.entry.amounts import available_cores

# For smaller inputs a second process costs more time than it saves (measured: 2-5 s to start).
SMALL_INPUT_BYTES = 64 << 20
_LOG_LINES = 30
_LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner")
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
_OUT_OF_MEMORY = re.compile(r"^MemoryError\b", re.MULTILINE)
# Message of job servers when the connection to a worker breaks.
_LOST_WORKER = re.compile(r"StatusRuntimeException: (?:CANCELLED|UNAVAILABLE)\b")
_STEP = re.compile(r"\s*\[while running .*$", re.DOTALL)


class _UnexplainedError(PipelineError):
    """A failure whose cause may be in the output of the workers."""


def runner_flags(beam_args: Sequence[str], work_bytes: int, paths: Sequence[str] = ()) -> list[str]:
    """Returns additional flags that select and complete the runner for an input of `work_bytes`.

    Beam's flags of the command line, `beam_args`, take precedence. Raises ConfigError if `--direct_running_mode` is
    `multi_threading`, the job server is missing, or workers cannot access one of the `paths` that they read and write.
    """
    options = PipelineOptions(list(beam_args))
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode == "multi_threading":
        raise ConfigError(
            "--direct_running_mode=multi_threading loses records silently in Beam 2.77. "
            "Use in_memory or multi_processing."
        )
    flags = []
    runner = options.view_as(StandardOptions).runner
    cores = available_cores()
    if not runner:
        # Beam's default first tries to download another runner, so the runner would differ by machine.
        flags.append("--runner=FnApiRunner")
    elif runner in PORTABLE_RUNNERS:
        return portable_flags(runner, beam_args, cores)
    elif runner == "DataflowRunner":
        return _dataflow_flags(beam_args, paths)
    elif runner not in _LOCAL_RUNNERS:
        return flags
    mode = direct.direct_running_mode
    if not given(beam_args, "--direct_running_mode"):
        several = direct.direct_num_workers != 1
        mode = "multi_processing" if several or work_bytes >= SMALL_INPUT_BYTES else "in_memory"
        flags.append(f"--direct_running_mode={mode}")
    if mode == "multi_processing" and not given(beam_args, "--direct_num_workers"):
        flags.append(f"--direct_num_workers={cores}")
    return flags


def _dataflow_flags(beam_args: Sequence[str], paths: Sequence[str]) -> list[str]:
    local = next(filter(is_local, paths), None)
    if local:
        raise ConfigError(f"--runner=DataflowRunner requires paths on object stores (gs://...). Received: {local}")
    flags = {
        # Beam would pickle the main module, which has no part of the pipeline.
        "--save_main_session": "--no_save_main_session",
        # Dataflow starts one process a core, each with 12 threads, which would only wait for each other.
        "--number_of_worker_harness_threads": "--number_of_worker_harness_threads=1",
    }
    return [flag for name, flag in flags.items() if not given(beam_args, name)]


def gathers_in_memory(options: PipelineOptions) -> bool:
    """Returns True if the runner keeps shuffled data in memory, on the same machine as all workers."""
    return options.view_as(StandardOptions).runner in _LOCAL_RUNNERS


def is_dry_run(options: PipelineOptions) -> bool:
    """Returns True if the pipeline is only built to check that the runner accepts it; nothing is written."""
    value = str(options.view_as(TestOptions).dry_run).lower()
    if value not in ("true", "false"):
        raise ConfigError(f"--dry_run must be true or false. Received: {value}")
    return value == "true"


def is_template(options: PipelineOptions) -> bool:
    """Returns True if the pipeline is only stored as a Dataflow template, to run later."""
    return bool(options.view_as(GoogleCloudOptions).template_location)


@contextlib.contextmanager
def running_pipeline(options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """Yields an empty pipeline and runs it when the block ends.

    With `--dry_run=true` Dataflow's runner builds the job without sending it, and other runners do nothing. Raises
    InputError if the pipeline fails because of its input, OSError because of the system, for example a full disk, and
    PipelineError for another reason.
    """
    pipeline = beam.Pipeline(options=options)
    yield pipeline
    runner = options.view_as(StandardOptions).runner
    if is_dry_run(options) and runner != "DataflowRunner":
        pipeline.to_runner_api()
        return
    with _run_environment(runner, options, pipeline.runner):
        try:
            result = pipeline.run()
            # A template has no job to wait for yet.
            state = PipelineState.DONE if is_template(options) else result.wait_until_finish()
        except Exception as error:
            raise _failure(error) from error
    if state not in (None, PipelineState.DONE):
        raise PipelineError(f"the pipeline ended in state {state}.")


def _failure(error: Exception) -> BaseException:
    """Returns the worker's error, the last one in the text of the runner's error, as one line."""
    if isinstance(error, grpc.RpcError):
        return _UnexplainedError(f"the connection to the job server broke; {RESUME}")
    text = str(error)
    if _INTERRUPTED.search(text):
        return KeyboardInterrupt()
    errors = _ERROR_LINE.findall(text)
    if not errors and _OUT_OF_MEMORY.search(text):
        return MemoryError("a worker ran out of memory")
    if not errors and _LOST_WORKER.search(text):
        return PipelineError(f"a worker process was lost (killed, or its machine is out of memory); {RESUME}")
    kind, message = errors[-1] if errors else (type(error).__name__, text.strip() or "no message")
    message = _STEP.sub("", message).strip().splitlines()[0]
    # Beam wraps an error whose arguments it cannot extend.
    if kind == "RuntimeError" and (wrapped := _ERROR_LINE.match(message)):
        kind, message = wrapped.groups()
    if kind in ("InputError", "PipelineError"):
        return (InputError if kind == "InputError" else PipelineError)(message)
    error_class = getattr(builtins, kind, None)
    if isinstance(error_class, type) and issubclass(error_class, OSError):
        return error_class(message)
    return _UnexplainedError(f"{kind}: {message}")


@contextlib.contextmanager
def _run_environment(name: str, options: PipelineOptions, runner: Any) -> Iterator[None]:
    """Sets up a run: quiet logs, the environment and output of worker processes, and a job server to be stopped."""
    with contextlib.ExitStack() as stack:
        if name != "DataflowRunner":  # its log shows the job's address
            stack.enter_context(_quiet_logs())
        portable = name in PORTABLE_RUNNERS
        if portable or options.view_as(DirectOptions).direct_running_mode == "multi_processing":
            # Workers have one TensorFlow thread, no accelerator, and this interpreter as `python`.
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
            stack.enter_context(environment(TF_NUM_INTRAOP_THREADS="1", CUDA_VISIBLE_DEVICES="-1", PATH=path))
            log = stack.enter_context(_redirected_output())
            if portable:
                stack.enter_context(job_server_of(runner, log))
        yield


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets environment variables inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Silences Beam's loggers and the root logger, which log errors that are raised as well."""
    loggers = [logging.getLogger(), logging.getLogger("apache_beam")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _redirected_output() -> Iterator[TextIO]:
    """Redirects the output of worker processes to a file: tracebacks of errors that are raised here as well.

    Workers inherit the descriptor of stderr, which points to the file inside the block. The last lines of the file are
    printed if the error does not explain why the run failed. Errors in Beam's threads go to the file too, except for
    lost connections.
    """
    stderr, hook = sys.stderr, threading.excepthook

    def log_thread_error(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, grpc.RpcError):
            traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback, file=log)

    with (
        tempfile.TemporaryFile("w+", errors="replace", buffering=1) as log,
        os.fdopen(os.dup(2), "w", buffering=1) as terminal,
    ):
        os.dup2(log.fileno(), 2)
        threading.excepthook = log_thread_error
        if stderr is sys.__stderr__:
            sys.stderr = terminal
        try:
            yield log
        except _UnexplainedError:
            log.seek(0)
            print("".join(log.readlines()[-_LOG_LINES:]), file=terminal)
            raise
        finally:
            os.dup2(terminal.fileno(), 2)
            sys.stderr, threading.excepthook = stderr, hook
