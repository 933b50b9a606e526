"""AdamW as the paper has it (arXiv 1810.04805, A.2): warm-up, linear decay, exclusions, global clipping."""

from __future__ import annotations

import keras
from keras import ops

from bert_tf.config import TrainingConfig
from bert_tf.training.distribution import dense, sum_over_replicas


@keras.saving.register_keras_serializable(package="bert_tf")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to a peak, then linear decay to zero.

    With i the number of finished steps (`optimizer.iterations`, 0 in the first step), w the warm-up and n all
    steps, the rate is `peak * min((i + 1) / (w + 1), (n - i) / (n - w))`: `peak / (w + 1)` in the first step,
    the peak at i = w, `peak / (n - w)` in the last step, 0 from i = n on. The original starts at 0, so that its
    first step changes nothing, and falls by `w / n` at the end of its warm-up.

    Args:
        peak: highest rate.
        warmup_steps: w; 0 starts at the peak.
        total_steps: n.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        if warmup_steps < 0 or total_steps < 1:
            raise ValueError(
                f"`warmup_steps` must not be negative and `total_steps` at least 1. "
                f"Received: {warmup_steps} and {total_steps}"
            )
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        """Returns the rate, float32, after `step` finished steps."""
        done = ops.cast(step, "float32")
        rise = (done + 1.0) / (self.warmup_steps + 1.0)
        fall = (self.total_steps - done) / max(1.0, float(self.total_steps - self.warmup_steps))
        return self.peak * ops.maximum(ops.minimum(ops.minimum(rise, fall), 1.0), 0.0)

    def get_config(self) -> dict[str, float | int]:
        """Returns the arguments of the constructor."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


@keras.saving.register_keras_serializable(package="bert_tf")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW, clipping the gradient of the global batch.

    Keras clips in each replica and adds the clipped gradients up, which is another step than one device
    would take. Here they are added up first. Gradients of embedding look-ups become dense before that:
    their norm counts a row that occurs twice once, as the sum it is.
    """

    def _clip_gradients(self, grads):
        return super()._clip_gradients(sum_over_replicas([dense(grad) for grad in grads]))

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)


@keras.saving.register_keras_serializable(package="bert_tf")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras's loss scaling, skipping a step in all replicas when any gradient overflowed in any of them.

    Keras asks the first replica only, and calls the gradient of an embedding look-up finite whatever is in it
    (3.15: `isfinite` of IndexedSlices is true throughout), so that an overflow there ends in NaN weights.
    """

    def apply(self, grads, trainable_variables=None):
        """Applies the gradients, made dense first."""
        super().apply([dense(grad) for grad in grads], trainable_variables)

    def check_finite(self, grads):
        """Returns, as a boolean scalar, whether all gradients of all replicas are finite."""
        overflowed = 1.0 - ops.cast(super().check_finite(grads), "float32")
        return ops.equal(sum_over_replicas([overflowed])[0], 0.0)


def is_decayed(variable: keras.Variable) -> bool:
    """Tells whether weight decay applies: to everything but biases and layer normalization."""
    name = variable.path.rsplit("/", 1)[-1]
    return not (name.endswith("bias") or name in ("gamma", "beta"))


def make_optimizer(
    config: TrainingConfig, total_steps: int, variables: list[keras.Variable]
) -> keras.optimizers.Optimizer:
    """Builds the optimizer of a run over `variables`.

    Unlike the original's optimizer, and like the paper's text, Adam's bias correction is on.

    Args:
        config: rate, warm-up, betas, decay, clipping and precision (`float16` adds dynamic loss scaling).
        total_steps: steps of the whole run; the schedule ends there.
        variables: the trainable variables of the model.

    Returns:
        A built optimizer: its state exists and can be restored.
    """
    optimizer: keras.optimizers.Optimizer = AdamW(
        learning_rate=LinearWarmupDecay(config.learning_rate, config.resolved_warmup(total_steps), total_steps),
        weight_decay=config.weight_decay,
        beta_1=config.adam_beta_1,
        beta_2=config.adam_beta_2,
        epsilon=config.adam_epsilon,
        global_clipnorm=config.clip_norm or None,
    )
    optimizer.exclude_from_weight_decay(var_list=[v for v in variables if not is_decayed(v)])
    if config.precision == "float16":
        optimizer = LossScaleOptimizer(optimizer)
    optimizer.build(variables)
    return optimizer


def last_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Returns the learning rate of the step just taken, which the optimizer counts as finished already."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return float(inner._learning_rate(ops.maximum(inner.iterations - 1, 0)))
