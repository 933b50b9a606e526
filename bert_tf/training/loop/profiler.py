"""Profiler trace of chosen steps for TensorBoard's Profile tab."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError, TrainingConfig


def check_profiled_steps(config: TrainingConfig, total_steps: int) -> None:
    """Raises ConfigError if `training.profile_steps` exceeds the `total_steps` of the run."""
    if config.profiled_steps and config.profiled_steps[-1] > total_steps:
        raise ConfigError(
            f"`training.profile_steps` must be steps of the run, which has {total_steps}. "
            f"Received: {config.profile_steps!r}"
        )


class StepProfile(keras.callbacks.Callback):
    """Traces chosen steps; work between the steps is outside of every step. The run is not affected.

    The steps are counted from 1. If a run is resumed within them, the remaining ones are traced. `finished` returns the
    number of finished steps at the time this callback runs, and `wait` waits for the devices to finish the last one.
    """

    def __init__(self, steps: range, directory: Path, finished: Callable[[], int], wait: Callable[[], object]) -> None:
        super().__init__()
        self._steps = steps
        self._first = 0
        self._directory = directory
        self._finished = finished
        self._wait = wait
        self._trace: contextlib.ExitStack | None = None
        self._step = contextlib.ExitStack()

    def on_train_batch_begin(self, batch, logs=None):
        """Starts the trace at the first of its steps."""
        step = self._finished() + 1
        if step not in self._steps:
            return
        trace, named_step = _profiler()
        if self._trace is None:
            self._trace = contextlib.ExitStack()
            self._trace.enter_context(trace(str(self._directory)))
            self._first = step
        self._step.enter_context(named_step(step))

    def on_train_batch_end(self, batch, logs=None):
        """Ends the trace after the last of its steps."""
        if self._trace is None:
            return
        self._wait()
        self._step.close()
        last = self._finished() + 1
        if last == self._steps[-1]:
            self.close()
            self._report(last)

    def close(self) -> None:
        """Ends the trace, if one is running."""
        self._step.close()
        if self._trace:
            self._trace.close()
            self._trace = None

    def _report(self, last: int) -> None:
        files = sorted(self._directory.glob("plugins/profile/*/*.xplane.pb"), key=lambda path: path.stat().st_mtime)
        if not files or not files[-1].stat().st_size:
            print(f"no trace of steps {self._first} to {last} was written: {self._directory}", file=sys.stderr)
            return
        size = files[-1].stat().st_size / 2**20
        print(f"trace of steps {self._first} to {last}: {files[-1]} ({size:.1f} MiB)", file=sys.stderr, flush=True)


def _profiler() -> tuple[Callable[[str], Any], Callable[[int], Any]]:
    """Returns the backend's context managers that trace into a directory, and that mark a step by its number."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.profiler.trace, lambda step: jax.profiler.StepTraceAnnotation("train", step_num=step)
    import tensorflow as tf

    return tf.profiler.experimental.Profile, lambda step: tf.profiler.experimental.Trace("train", step_num=step, _r=1)
