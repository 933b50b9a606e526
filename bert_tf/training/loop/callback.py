"""Training callback: metrics, checkpoints, evaluations and signals between the steps of `fit`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import keras

from bert_tf.entry.amounts import in_time
from bert_tf.optim.build import last_rate
from bert_tf.training.evaluation.baselines import Evaluation
from bert_tf.training.logging.run_log import RunLog
from bert_tf.training.loop.checkpoints import CheckpointStore, NotFiniteError
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.losses import TrainingModel

# Timed steps from which the time left is estimated.
TIMED_STEPS = 10


@dataclass(frozen=True)
class Intervals:
    """Steps between two events of a kind, which also fire after the last step; `evaluate=0` means only then.

    `keep_step` is a step with a checkpoint besides; None for no other.
    """

    log: int
    checkpoint: int
    evaluate: int
    total: int
    keep_step: int | None = None


@dataclass(frozen=True)
class Events:
    """Objects and functions that a run calls between its steps.

    `evaluate` takes a batch number, counted from 0, and returns None without evaluation. `share_of_peak` returns the
    share of the devices' peak that a step uses, from the step counted from 0, its positions and seconds; None if the
    peak is unknown. `is_enough` returns True if the metrics of all evaluations so far end the run early. `report` takes
    the finished steps and either the expected seconds until the last step or an evaluation.
    """

    store: CheckpointStore
    log: RunLog
    preemption: PreemptionHandler
    evaluate: Callable[[int], Evaluation | None]
    share_of_peak: Callable[[int, float, float], float] | None
    is_enough: Callable[[Sequence[Mapping[str, float]]], bool]
    report: Callable[[int, float | None, Evaluation | None], None]


class TrainingCallback(keras.callbacks.Callback):
    """Counts the steps of a run and runs the events that are due after each.

    The metrics are averaged between two events of any kind. A run resumed at a checkpoint therefore records the same
    metrics as an uninterrupted one. Only at events does the host wait for the devices and read metrics; a loss that is
    not finite is found at the next event, with the number of its step. `progress` has `loss` and `tokens_per_second` of
    the steps finished before.
    """

    def __init__(
        self,
        training: TrainingModel,
        events: Events,
        intervals: Intervals,
        start_step: int,
        progress: dict[str, float],
    ) -> None:
        super().__init__()
        self.step = start_step
        self.progress = progress
        self.evaluation: Evaluation | None = None
        self.log = events.log
        self._training = training
        self._store = events.store
        self._preemption = events.preemption
        self._events = events
        self._intervals = intervals
        self._start_step = start_step
        self._speed = _Speed(training)
        self._untimed_tokens = 0.0
        self._interval_steps = 0

    @property
    def should_stop(self) -> bool:
        """True if the evaluations so far end the run early; a function of the recorded history alone."""
        return self._events.is_enough([record for record in self.log.records if record["split"] == "validation"])

    def on_train_begin(self, logs=None):
        """Runs the evaluation that was due when the previous process stopped."""
        is_due = self.step > 0 and self._is_due(self._intervals.evaluate)
        if is_due and self.log.find("validation", self.step) is None:
            self.evaluate_once()
        self._start_step = self.step
        self._start_interval()

    def on_train_batch_end(self, batch, logs=None):
        """Runs the events that are due after one step."""
        self.step += 1
        self._interval_steps += 1
        self._speed.steps += 1
        self._preemption.step_ended()
        save = self._is_due(self._intervals.checkpoint) or self.step == self._intervals.keep_step
        evaluate = self._is_due(self._intervals.evaluate)
        ends_interval = save or evaluate or self._is_due(self._intervals.log)
        is_first = self.step == self._start_step + 1
        if ends_interval or is_first or self._preemption:
            self._training.synchronize()
            self.check_finite()
        if ends_interval:
            self._record()
            if save:
                self._store.save(self.step, self.progress)
            if evaluate and not self._preemption:
                self.evaluate_once()
                self._end_early()
            self._start_interval()
        if self._preemption:
            self.stop()
        if is_first:
            # The first step includes tracing, so it is not timed.
            self._untimed_tokens = float(self._training.tokens.result())
            self._speed = _Speed(self._training)
        elif self._speed.steps == TIMED_STEPS == self.step - self._start_step - 1 and not ends_interval:
            self._training.synchronize()
            seconds = self._speed.current
            left = seconds * (self._intervals.total - self.step)
            self.log.say(f"step {self.step}: {seconds:.3g} s a step, {in_time(left)} left without evaluations")
            self._events.report(self.step, left, None)

    def evaluate_once(self) -> None:
        """Evaluates into `evaluation`; records the metrics unless those of this step are recorded already."""
        evaluation = self._events.evaluate(max(self.step - 1, 0))
        if evaluation is None or self._preemption:
            return
        self.evaluation = evaluation
        if self.log.find("validation", self.step) is None:
            self.log.write_evaluation(self.step, evaluation)
        self._events.report(self.step, None, evaluation)

    def _end_early(self) -> None:
        if self.step < self._intervals.total and self.should_stop:
            if not self._store.path(self.step).exists():
                self._store.save(self.step, self.progress)
            print(f"early stopping after step {self.step} of {self._intervals.total}: no improvement", file=sys.stderr)
            self._training.stop_training = True

    def check_finite(self) -> None:
        """Raises NotFiniteError for the first step since the last event whose loss or gradient is not finite.

        Must be called before the metrics are reset.
        """
        finite = self._training.finite_steps(self._interval_steps)
        if finite < self._interval_steps:
            step = self.step - self._interval_steps + finite
            reason = "the loss or its gradient is not finite"
            raise NotFiniteError(step, f"step {step + 1}: {reason}. {self._last_checkpoint()}")

    def stop(self) -> NoReturn:
        """Saves a checkpoint, unless this step has one, and raises the exception of the signal."""
        if not self._store.path(self.step).exists():
            if self._speed.steps:
                self._record()
            self._store.save(self.step, self.progress)
        # Workers that do not write wait for the chief, which would otherwise report them as lost.
        self._preemption.ask(now=True)
        print(
            f"interrupted after step {self.step} of {self._intervals.total}; saved as {self._store.path(self.step)}. "
            "Run the same command with the same output directory to resume.",
            file=sys.stderr,
            flush=True,
        )
        self._preemption.act()

    def _is_due(self, interval: int) -> bool:
        return self.step == self._intervals.total or (interval > 0 and self.step % interval == 0)

    def _start_interval(self) -> None:
        self._training.reset_metrics()
        self._untimed_tokens = 0.0
        self._interval_steps = 0
        self._speed.resume()

    def _record(self) -> None:
        tokens, positions = (float(metric.result()) for metric in (self._training.tokens, self._training.positions))
        self._speed.pause(tokens - self._untimed_tokens)
        metrics = self._training.results() | {
            "learning_rate": last_rate(self._training.optimizer),
            "gradient_norm": float(self._training.gradient_norm.result()),
            "tokens_per_second": self._speed.tokens_per_second,
            "seconds_per_step": self._speed.seconds_per_step,
            "padding": 1.0 - tokens / positions if positions else 0.0,
            "input_wait": self._speed.input_wait,
        }
        share, seconds = self._events.share_of_peak, self._speed.seconds_per_step
        if share and seconds:
            metrics["mfu"] = share(self.step - 1, positions / self._interval_steps, seconds)
        self.progress = {"loss": metrics["loss"], "tokens_per_second": self._speed.overall}
        left = self._speed.expected(self._intervals.total - self.step)
        self.log.write("train", self.step, metrics | ({} if left is None else {"eta_seconds": left}))
        self._events.report(self.step, left, None)

    def _last_checkpoint(self) -> str:
        steps = self._store.steps()
        return f"The last checkpoint is {self._store.path(steps[-1])}." if steps else "There is no checkpoint."


class _Speed:
    """Throughput in tokens and steps per second, without the time between steps, and the share of input wait."""

    def __init__(self, training: TrainingModel) -> None:
        self.steps = 0
        self.tokens_per_second = 0.0
        self.seconds_per_step = 0.0
        self.input_wait = 0.0
        self._training = training
        self._all_tokens = 0.0
        self._all_seconds = 0.0
        self._all_steps = 0
        self.resume()

    @property
    def overall(self) -> float:
        """Tokens per second over all intervals."""
        return self._all_tokens / self._all_seconds if self._all_seconds else 0.0

    @property
    def current(self) -> float:
        """Seconds for each step of the interval so far."""
        return (time.perf_counter() - self._since) / self.steps

    def expected(self, steps: int) -> float | None:
        """Returns the seconds of further steps; None if there are none, or fewer than `TIMED_STEPS` are timed."""
        if not steps or self._all_steps < TIMED_STEPS:
            return None
        return steps * (self.seconds_per_step if self.steps >= TIMED_STEPS else self._all_seconds / self._all_steps)

    def resume(self) -> None:
        """Starts an interval."""
        self._since = time.perf_counter()
        self._waited = self._training.input_wait
        self.steps = 0

    def pause(self, tokens: float) -> None:
        """Ends an interval of `tokens` tokens."""
        seconds = time.perf_counter() - self._since
        self._all_tokens += tokens
        self._all_seconds += seconds
        self._all_steps += self.steps
        if self.steps:
            self.tokens_per_second = tokens / seconds
            self.seconds_per_step = seconds / self.steps
            self.input_wait = (self._training.input_wait - self._waited) / seconds
