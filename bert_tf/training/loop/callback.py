"""What happens between the steps of `fit`: figures, checkpoints, evaluations, signals."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import keras

from bert_tf.training.evaluation.context import Evaluation
from bert_tf.training.logging.run_log import RunLog
from bert_tf.training.loop.checkpoints import CheckpointStore, NotFiniteError
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.losses import INPUT_WAIT, LOSS, TrainingModel
from bert_tf.training.optim.build import last_rate


@dataclass(frozen=True)
class Intervals:
    """Steps between the events of a run; all follow the last step too. `evaluate` 0 is then only."""

    log: int
    checkpoint: int
    evaluate: int


class TrainingCallback(keras.callbacks.Callback):
    """Counts the steps of a run and does what is due after each.

    The metrics are averaged from one event to the next (of any kind), so that a run resumed at a checkpoint
    records the same figures as one that was never broken off.

    Args:
        training: the model being trained, compiled.
        store: takes the checkpoints.
        log: takes the figures.
        evaluate: gives the evaluation on held-out data that fit the batch of a step, counted from 0; None where there
            is none.
        intervals: steps between the events.
        start_step: finished steps.
        total_steps: steps of the whole run.
        interruption: asked after each step.
        progress: `loss` and `tokens_per_second` of the steps finished before.
        share_of_peak: gives the share of the devices' peak that a step, counted from 0, of so many positions and
            seconds makes use of; None where that is not known.
        enough: whether the figures of all evaluations, in their order, are enough to end the run early.
    """

    def __init__(
        self,
        training: TrainingModel,
        store: CheckpointStore,
        log: RunLog,
        evaluate: Callable[[int], Evaluation] | None,
        intervals: Intervals,
        start_step: int,
        total_steps: int,
        preemption: PreemptionHandler,
        progress: dict[str, float],
        share_of_peak: Callable[[int, float, float], float] | None = None,
        enough: Callable[[Sequence[Mapping[str, float]]], bool] = lambda _: False,
    ) -> None:
        super().__init__()
        self.step = start_step
        self.progress = progress
        self.evaluation: Evaluation | None = None
        self._training = training
        self._store = store
        self.log = log
        self._evaluate = evaluate
        self._intervals = intervals
        self._start_step = start_step
        self._total_steps = total_steps
        self._interruption = preemption
        self._speed = _Speed()
        self._untimed_tokens = 0.0
        self._interval_steps = 0
        self._share_of_peak = share_of_peak
        self._enough = enough

    @property
    def should_stop(self) -> bool:
        """Whether the evaluations so far end the run early; a function of its history alone."""
        return self._enough([record for record in self.log.records if record["split"] == "validation"])

    def on_train_begin(self, logs=None):
        """Makes up for an evaluation that a run stopped after its checkpoint still owes."""
        owed = self.step > 0 and self._is_due(self._intervals.evaluate)
        if owed and self.log.find("validation", self.step) is None:
            self.evaluate_once()
        self._start_step = self.step
        self._start_interval()

    def on_train_batch_end(self, batch, logs=None):
        """Does what is due after one step."""
        self.step += 1
        self._interval_steps += 1
        self._speed.count(logs.get(INPUT_WAIT, 0.0))
        self._interruption.step_ended()
        self._check_finite(logs.get(LOSS, 0.0))
        save, evaluate = self._is_due(self._intervals.checkpoint), self._is_due(self._intervals.evaluate)
        ends_interval = save or evaluate or self._is_due(self._intervals.log)
        is_first = self.step == self._start_step + 1
        if ends_interval or is_first or self._interruption:
            self._training.synchronize()
        if ends_interval:
            self._record()
            if save:
                self._store.save(self.step, self.progress)
            if evaluate and not self._interruption:
                self.evaluate_once()
                self._end_early()
            self._start_interval()
        if self._interruption:
            self.stop()
        if is_first:
            # Tracing belongs to the first step and says nothing about the speed.
            self._untimed_tokens = float(self._training.tokens.result())
            self._speed = _Speed()

    def evaluate_once(self) -> None:
        """Evaluates into `evaluation`, recording the figures unless those of this step are recorded already."""
        if self._evaluate is None:
            return
        evaluation = self._evaluate(max(self.step - 1, 0))
        if self._interruption:
            return
        self.evaluation = evaluation
        if self.log.find("validation", self.step) is None:
            self.log.write_evaluation(self.step, evaluation)

    def _end_early(self) -> None:
        if self.step < self._total_steps and self.should_stop:
            if not self._store.path(self.step).exists():
                self._store.save(self.step, self.progress)
            print(f"ends after step {self.step} of {self._total_steps}: no better for a while", file=sys.stderr)
            self._training.stop_training = True

    def stop(self) -> NoReturn:
        """Saves, unless that is done for this step, and raises what the signal means."""
        if not self._store.path(self.step).exists():
            if self._speed.steps:
                self._record()
            self._store.save(self.step, self.progress)
        # Those that do not write wait for the one that does: it would take their end for a loss.
        self._interruption.ask()
        print(
            f"interrupted after step {self.step} of {self._total_steps}; saved as {self._store.path(self.step)}. "
            "The same command with the same output directory goes on from there.",
            file=sys.stderr,
            flush=True,
        )
        self._interruption.act()

    def _is_due(self, interval: int) -> bool:
        return self.step == self._total_steps or (interval > 0 and self.step % interval == 0)

    def _start_interval(self) -> None:
        self._training.reset_metrics()
        self._untimed_tokens = 0.0
        self._interval_steps = 0
        self._speed.resume()

    def _record(self) -> None:
        tokens, positions = (float(metric.result()) for metric in (self._training.tokens, self._training.positions))
        self._speed.pause(tokens - self._untimed_tokens)
        figures = self._training.results() | {
            "learning_rate": last_rate(self._training.optimizer),
            "gradient_norm": float(self._training.gradient_norm.result()),
            "tokens_per_second": self._speed.tokens_per_second,
            "seconds_per_step": self._speed.seconds_per_step,
            "padding": 1.0 - tokens / positions if positions else 0.0,
            "input_wait": self._speed.input_wait,
        }
        if self._share_of_peak and self._speed.seconds_per_step:
            figures["mfu"] = self._share_of_peak(
                self.step - 1, positions / self._interval_steps, self._speed.seconds_per_step
            )
        # Where steps give no loss of their own, as on a TPU.
        self._check_finite(figures["loss"])
        self.progress = {"loss": figures["loss"], "tokens_per_second": self._speed.overall}
        eta = self._speed.seconds_per_step * (self._total_steps - self.step)
        self.log.write("train", self.step, figures | {"eta_seconds": eta})

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            what = f"the loss is {loss}, or its gradient is not finite"
            raise NotFiniteError(self.step - 1, f"step {self.step}: {what}. {self._last_checkpoint()}")

    def _last_checkpoint(self) -> str:
        steps = self._store.steps()
        return f"The last checkpoint is {self._store.path(steps[-1])}." if steps else "There is no checkpoint."


class _Speed:
    """Tokens and steps a second, what happens between the steps not counted.

    `input_wait` is the share of an interval's time in which a step had no data yet.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.tokens_per_second = 0.0
        self.seconds_per_step = 0.0
        self.input_wait = 0.0
        self._waited = 0.0
        self._all_tokens = 0.0
        self._all_seconds = 0.0
        self.resume()

    @property
    def overall(self) -> float:
        """Tokens a second in all intervals together."""
        return self._all_tokens / self._all_seconds if self._all_seconds else 0.0

    def resume(self) -> None:
        """Starts an interval."""
        self._since = time.perf_counter()
        self.steps = 0
        self._waited = 0.0

    def count(self, waited: float) -> None:
        """Counts one step, `waited` seconds of which it waited for its data."""
        self.steps += 1
        self._waited += waited

    def pause(self, tokens: float) -> None:
        """Ends an interval of `tokens` tokens."""
        seconds = time.perf_counter() - self._since
        self._all_tokens += tokens
        self._all_seconds += seconds
        if self.steps:
            self.tokens_per_second = tokens / seconds
            self.seconds_per_step = seconds / self.steps
            self.input_wait = self._waited / seconds
