"""Which runner runs, and how its failures are told."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from beam_pipelines.errors import InputError, PipelineError
from bert_tf.config import ConfigError

# Below this much input a second process costs more than it gives (measured: 2-5 s to start).
SMALL_INPUT_BYTES = 64 << 20
_LOG_LINES = 30
_LOCAL_RUNNERS = ("FnApiRunner", "DirectRunner")
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_INTERRUPTED = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
_STEP = re.compile(r"\s*\[while running .*$", re.DOTALL)


def runner_flags(beam_args: Sequence[str], work_bytes: int) -> list[str]:
    """Returns the flags to add to `beam_args` so that the runner is named and fits the input.

    Args:
        beam_args: Beam's flags as the user gave them; they win.
        work_bytes: size of the input.

    Raises:
        ConfigError: for `--direct_running_mode=multi_threading`.
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
    if not runner:
        # Beam's own default tries to download another runner first; which one runs then differs by machine.
        flags.append("--runner=FnApiRunner")
    elif runner not in _LOCAL_RUNNERS:
        return flags
    mode = direct.direct_running_mode
    if not _given(beam_args, "--direct_running_mode"):
        several = direct.direct_num_workers != 1
        mode = "multi_processing" if several or work_bytes >= SMALL_INPUT_BYTES else "in_memory"
        flags.append(f"--direct_running_mode={mode}")
    if mode == "multi_processing" and not _given(beam_args, "--direct_num_workers"):
        flags.append(f"--direct_num_workers={len(os.sched_getaffinity(0))}")
    return flags


def _given(args: Sequence[str], flag: str) -> bool:
    return any(arg == flag or arg.startswith(f"{flag}=") for arg in args)


@contextlib.contextmanager
def running_pipeline(options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """Yields a pipeline to be filled and runs it when the block ends.

    Raises:
        InputError: when the pipeline fails for its input.
        OSError: when it fails for the system, for example a full disk.
        PipelineError: when it fails otherwise.
    """
    pipeline = beam.Pipeline(options=options)
    yield pipeline
    with _worker_environment(options), _quiet_beam():
        try:
            state = pipeline.run().wait_until_finish()
        except Exception as error:
            raise _failure(error) from error
    if state not in (None, PipelineState.DONE):
        raise PipelineError(f"the pipeline ended in state {state}.")


def _failure(error: Exception) -> BaseException:
    """Finds the worker's own error, the last one in the text of the runner's, as one line."""
    text = str(error)
    if _INTERRUPTED.search(text):
        return KeyboardInterrupt()
    found = _ERROR_LINE.findall(text)
    kind, message = found[-1] if found else (type(error).__name__, text.strip() or "no message")
    message = _STEP.sub("", message).strip().splitlines()[0]
    known = {"InputError": InputError, "OSError": OSError}
    return known[kind](message) if kind in known else PipelineError(f"{kind}: {message}")


@contextlib.contextmanager
def _worker_environment(options: PipelineOptions) -> Iterator[None]:
    """Gives worker processes one TensorFlow thread each, no accelerator and a log of their own."""
    if options.view_as(DirectOptions).direct_running_mode != "multi_processing":
        yield
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        # FnApiRunner hands its worker processes no options at all, so this file takes nothing away.
        file.write(json.dumps({"options": {"default_sdk_harness_log_level": "CRITICAL"}}))
        file.flush()
        values = {
            "TF_NUM_INTRAOP_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "-1",
            "PIPELINE_OPTIONS_FILE": file.name,
        }
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            with _worker_output_aside():
                yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def _quiet_beam() -> Iterator[None]:
    """Silences the tracebacks that Beam logs for an error which is raised as well."""
    logger = logging.getLogger("apache_beam")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _worker_output_aside() -> Iterator[None]:
    """Keeps what worker processes print off the terminal: tracebacks of errors that are raised here as well.

    They inherit the descriptor of stderr, which is a file meanwhile; its end is shown when a worker fails for a
    reason that the error does not tell.
    """
    stderr = sys.stderr
    with tempfile.TemporaryFile("w+", errors="replace") as log, os.fdopen(os.dup(2), "w", buffering=1) as terminal:
        os.dup2(log.fileno(), 2)
        if stderr is sys.__stderr__:
            sys.stderr = terminal
        try:
            yield
        except PipelineError:
            log.seek(0)
            print("".join(log.readlines()[-_LOG_LINES:]), file=terminal)
            raise
        finally:
            os.dup2(terminal.fileno(), 2)
            sys.stderr = stderr
