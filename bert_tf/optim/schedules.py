"""Learning rate schedules."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from bert_tf.config import TrainingConfig


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises over `warmup_steps` and reaches zero after `total_steps`.

    `halved` may be set to numbers of finished steps, after each of which the rate is halved.
    """

    halved: Sequence[int] = ()

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        if warmup_steps < 0 or total_steps < 1:
            raise ValueError(
                f"`warmup_steps` must be at least 0 and `total_steps` at least 1. "
                f"Received: {warmup_steps} and {total_steps}"
            )
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        """Returns the float32 rate after `step` finished steps."""
        done = ops.cast(step, "float32")
        rate = self.rate(done)
        for halved in self.halved:
            rate = rate * ops.where(done >= halved, 0.5, 1.0)
        return rate

    def get_config(self) -> dict[str, float | int]:
        """Returns the arguments of the constructor."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


@keras.saving.register_keras_serializable(package="bert_tf")
class LinearWarmupDecay(Schedule):
    """Linear warm-up to a peak, then linear decay to zero.

    With i the number of finished steps (`optimizer.iterations`, 0 in the first step), w the warm-up and n all
    steps, the rate is `peak * min((i + 1) / (w + 1), (n - i) / (n - w))`: `peak / (w + 1)` in the first step,
    the peak at i = w, `peak / (n - w)` in the last step, 0 from i = n on.

    Args:
        peak: highest rate.
        warmup_steps: w; 0 starts at the peak.
        total_steps: n.

    Example:
        >>> schedule = bert_tf.LinearWarmupDecay(peak=0.001, warmup_steps=9, total_steps=100)
        >>> [round(float(schedule(step)), 4) for step in (0, 9, 100)]
        [0.0001, 0.001, 0.0]
    """

    def rate(self, done):
        """Returns the rate after `done` finished steps; both are float32."""
        rise = (done + 1.0) / (self.warmup_steps + 1.0)
        fall = (self.total_steps - done) / max(1.0, float(self.total_steps - self.warmup_steps))
        return self.peak * ops.maximum(ops.minimum(ops.minimum(rise, fall), 1.0), 0.0)


@keras.saving.register_keras_serializable(package="bert_tf")
class OriginalWarmupDecay(Schedule):
    """The formula of the original's `create_optimizer`; it approaches the peak without reaching it.

    With i, w and n as in `LinearWarmupDecay`, the rate is `peak * i / w` before i = w, so that the first step changes
    nothing, and `peak * (n - i) / n` from there on, a drop by `w / n` at the end of the warm-up.

    The original takes these steps with TensorFlow's resource variables. With the reference variables of TensorFlow 1, a
    step reads i before or after its own increment, mostly after, which differs from run to run.
    """

    def rate(self, done):
        """Returns the rate after `done` finished steps; both are float32."""
        rise = done / max(1.0, float(self.warmup_steps))
        fall = ops.maximum(self.total_steps - done, 0.0) / self.total_steps
        return self.peak * ops.where(done < self.warmup_steps, rise, fall)


@keras.saving.register_keras_serializable(package="bert_tf")
class Trapezoidal(Schedule):
    """Linear warm-up, a constant rate, and linear decay to zero in the last steps (arXiv 2405.18392).

    With i, w and n as in `LinearWarmupDecay` and d steps of decay, the rate is `peak * min((i + 1) / (w + 1), 1, (n -
    i) / d)`. Before step n - d it does not depend on n, so that a run can be extended.

    Args:
        peak: highest rate.
        warmup_steps: w; 0 starts at the peak.
        total_steps: n.
        decay_steps: d; 0 keeps the peak until the end.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int, decay_steps: int) -> None:
        super().__init__(peak, warmup_steps, total_steps)
        if not 0 <= decay_steps <= total_steps:
            raise ValueError(f"`decay_steps` must be in [0, {total_steps}]. Received: {decay_steps}")
        self.decay_steps = decay_steps

    def rate(self, done):
        """Returns the rate after `done` finished steps; both are float32."""
        rise = (done + 1.0) / (self.warmup_steps + 1.0)
        fall = (self.total_steps - done) / max(1.0, float(self.decay_steps))
        return self.peak * ops.maximum(ops.minimum(ops.minimum(rise, fall), 1.0), 0.0)

    def get_config(self) -> dict[str, float | int]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"decay_steps": self.decay_steps}


SCHEDULES: dict[str, type[Schedule]] = {
    "linear": LinearWarmupDecay,
    "original": OriginalWarmupDecay,
    "trapezoidal": Trapezoidal,
}


def make_schedule(config: TrainingConfig, total_steps: int) -> Schedule:
    """Builds the learning rate schedule of a run of `total_steps`."""
    decay = (config.resolved_decay(total_steps),) if config.schedule == "trapezoidal" else ()
    return SCHEDULES[config.schedule](config.learning_rate, config.resolved_warmup(total_steps), total_steps, *decay)
