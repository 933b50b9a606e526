"""Which runner runs, and how its failures are told."""

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

# Below this much input a second process costs more than it gives (measured: 2-5 s to start).
SMALL_INPUT_BYTES = 64 << 20
_LOG_LINES = 30
_LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner")
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
_OUT_OF_MEMORY = re.compile(r"^MemoryError\b", re.MULTILINE)
# What job servers say when the connection to a worker breaks.
_LOST_WORKER = re.compile(r"StatusRuntimeException: (?:CANCELLED|UNAVAILABLE)\b")
_STEP = re.compile(r"\s*\[while running .*$", re.DOTALL)


class _UnexplainedError(PipelineError):
    """A failure whose reason may stand in the output of the workers."""


def runner_flags(beam_args: Sequence[str], work_bytes: int, paths: Sequence[str] = ()) -> list[str]:
    """Returns the flags to add to `beam_args` so that the runner is named, complete, and fits the input.

    Args:
        beam_args: Beam's flags as the user gave them; they win.
        work_bytes: size of the input.
        paths: what the workers read and write.

    Raises:
        ConfigError: for `--direct_running_mode=multi_threading`, a runner that lacks its job server, or paths that
            its workers cannot reach.
    """
    options = PipelineOptions(list(beam_args))
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode == "multi_threading":
        raise ConfigError(
            "--direct_running_mode=multi_threading loses records silently in Beam 2.77; "
            "use in_memory or multi_processing."
        )
    flags = []
    runner = options.view_as(StandardOptions).runner
    cores = len(os.sched_getaffinity(0))
    if not runner:
        # Beam's own default tries to download another runner first; which one runs then differs by machine.
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
        raise ConfigError(f"--runner=DataflowRunner reads and writes object stores (gs://...). Received: {local}")
    # Nothing of a pipeline stands in the main module, which Beam would pickle.
    return [] if given(beam_args, "--save_main_session") else ["--no_save_main_session"]


def gathers_in_memory(options: PipelineOptions) -> bool:
    """Tells whether the runner holds what crosses the shuffle in memory, on the machine of all its workers."""
    return options.view_as(StandardOptions).runner in _LOCAL_RUNNERS


def is_dry_run(options: PipelineOptions) -> bool:
    """Tells whether the pipeline is only to be built, to see that a runner would take it; nothing is written then."""
    value = str(options.view_as(TestOptions).dry_run).lower()
    if value not in ("true", "false"):
        raise ConfigError(f"--dry_run must be true or false. Received: {value}")
    return value == "true"


def is_template(options: PipelineOptions) -> bool:
    """Tells whether the pipeline is only written down, as launchers of Dataflow templates ask, and runs later."""
    return bool(options.view_as(GoogleCloudOptions).template_location)


@contextlib.contextmanager
def running_pipeline(options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """Yields a pipeline to be filled and runs it when the block ends.

    With `--dry_run=true` Dataflow's runner builds everything it would send, and other runners do nothing.

    Raises:
        InputError: when the pipeline fails for its input.
        OSError: when it fails for the system, for example a full disk.
        PipelineError: when it fails otherwise.
    """
    pipeline = beam.Pipeline(options=options)
    yield pipeline
    runner = options.view_as(StandardOptions).runner
    if is_dry_run(options) and runner != "DataflowRunner":
        pipeline.to_runner_api()
        return
    with _surroundings(runner, options, pipeline.runner):
        try:
            result = pipeline.run()
            # A template has no job yet that one could wait for.
            state = PipelineState.DONE if is_template(options) else result.wait_until_finish()
        except Exception as error:
            raise _failure(error) from error
    if state not in (None, PipelineState.DONE):
        raise PipelineError(f"the pipeline ended in state {state}.")


def _failure(error: Exception) -> BaseException:
    """Finds the worker's own error, the last one in the text of the runner's, as one line."""
    if isinstance(error, grpc.RpcError):
        return _UnexplainedError(f"the connection to the job server broke; {RESUME}")
    text = str(error)
    if _INTERRUPTED.search(text):
        return KeyboardInterrupt()
    found = _ERROR_LINE.findall(text)
    if not found and _OUT_OF_MEMORY.search(text):
        return MemoryError("a worker needed more memory than there is")
    if not found and _LOST_WORKER.search(text):
        return PipelineError(f"a worker process was lost (killed, or its machine is out of memory); {RESUME}")
    kind, message = found[-1] if found else (type(error).__name__, text.strip() or "no message")
    message = _STEP.sub("", message).strip().splitlines()[0]
    # Beam wraps an error whose arguments it cannot extend.
    if kind == "RuntimeError" and (wrapped := _ERROR_LINE.match(message)):
        kind, message = wrapped.groups()
    if kind in ("InputError", "PipelineError"):
        return (InputError if kind == "InputError" else PipelineError)(message)
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, OSError):
        return known(message)
    return _UnexplainedError(f"{kind}: {message}")


@contextlib.contextmanager
def _surroundings(name: str, options: PipelineOptions, runner: Any) -> Iterator[None]:
    """What a run has around it: quiet logs, worker processes that are told apart, a job server that is stopped."""
    with contextlib.ExitStack() as stack:
        if name != "DataflowRunner":  # whose log gives the job's address
            stack.enter_context(_quiet_logs())
        portable = name in PORTABLE_RUNNERS
        if portable or options.view_as(DirectOptions).direct_running_mode == "multi_processing":
            stack.enter_context(_worker_environment())
            log = stack.enter_context(_output_aside())
            if portable:
                stack.enter_context(job_server_of(runner, log))
        yield


@contextlib.contextmanager
def _worker_environment() -> Iterator[None]:
    """Gives worker processes one TensorFlow thread each, no accelerator, and this interpreter as `python`."""
    values = {
        "TF_NUM_INTRAOP_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
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
    """Silences what is logged of errors that are raised as well, by Beam's own loggers and by the root one."""
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
def _output_aside() -> Iterator[TextIO]:
    """Keeps what worker processes print off the terminal: tracebacks of errors that are raised here as well.

    They inherit the descriptor of stderr, which is a file meanwhile; its end is shown when a run fails for a
    reason that the error does not tell. So it is with threads of Beam's, but for the connections they lose then.

    Yields:
        The file.
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
