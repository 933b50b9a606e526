"""AdamW and LAMB over the gradient of the global batch, as used to train BERT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_tf")
class AdamW(keras.optimizers.AdamW):
    """Adam with decoupled weight decay (arXiv 1711.05101) over the global gradient, which each replica receives.

    Keras clips in each replica and then adds up the clipped gradients, which differs from a step on one device. Here
    the gradients are already summed. Gradients of embedding look-ups are made dense before clipping, so that a row that
    occurs twice counts once in the norm, as a sum.

    `bias_correction` corrects the moments for their initial zeros (arXiv 1412.6980, section 3); the original's
    optimizer does not. `epsilon_form` says to what `epsilon` is added: with `tensorflow` to the square root of the
    second moment before its correction ("epsilon hat" of the same section), with `torch` after it. The forms agree
    without bias correction; with it, `tensorflow` adds `1 / sqrt(1 - beta_2 ** step)` times as much. `rate_scales` has
    a factor of the learning rate, and thus of the decay, for each variable in the order of `build`; None means 1 for
    all.
    """

    def __init__(
        self,
        *,
        bias_correction: bool = True,
        epsilon_form: str = "tensorflow",
        rate_scales: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bias_correction = bias_correction
        self.epsilon_form = epsilon_form
        self.rate_scales = None if rate_scales is None else tuple(rate_scales)

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the moments of `variables`. Raises ValueError if the number of rate scales is another."""
        if self.rate_scales is not None and len(self.rate_scales) != len(variables):
            raise ValueError(f"`rate_scales` must have {len(variables)} values. Received: {len(self.rate_scales)}")
        super().build(variables)

    def update_step(self, gradient, variable, learning_rate):
        """Adds `-rate * (m / (sqrt(v) + epsilon) + decay * variable)` to `variable`, with corrected moments m and v."""
        index = self._get_variable_index(variable)
        rate = ops.cast(learning_rate, variable.dtype)
        if self.rate_scales is not None:
            rate = rate * self.rate_scales[index]
        decay = self.weight_decay if self.weight_decay and self._use_weight_decay(variable) else 0.0
        self._move(variable, ops.cast(gradient, variable.dtype), rate, decay, index)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        names = ("bias_correction", "epsilon_form", "rate_scales")
        return super().get_config() | {name: getattr(self, name) for name in names}

    def _move(self, variable, gradient, rate, decay, index):
        if decay:
            # The decay uses the value before the step, as in the formula: the step has not changed it yet.
            self.assign_sub(variable, variable * (rate * decay))
        if keras.backend.backend() == "tensorflow":
            self._apply_fused(variable, gradient, rate, index)
        else:
            self.assign_sub(variable, rate * self._adam_direction(variable, gradient, index))

    def _apply_fused(self, variable, gradient, rate, index):
        """Applies the update in one pass over memory instead of ten single operations."""
        import tensorflow as tf

        moments = (self._momentums[index].value, self._velocities[index].value)
        powers = self._powers(variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=moments[0].handle,
            v=moments[1].handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=ops.cast(self.beta_1, variable.dtype),
            beta2=ops.cast(self.beta_2, variable.dtype),
            epsilon=ops.cast(self._epsilon_at(powers[1]), variable.dtype),
            grad=gradient,
            use_locking=True,
        )

    def _adam_direction(self, variable, gradient, index):
        """Updates the moments; returns `m / (sqrt(v) + epsilon)`, bias-corrected if enabled."""
        m, v = self._momentums[index], self._velocities[index]
        self.assign_add(m, (gradient - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(gradient) - v) * (1 - self.beta_2))
        power_1, power_2 = self._powers(variable.dtype)
        correction = ops.sqrt(1 - power_2) / (1 - power_1)
        return correction * m / (ops.sqrt(v) + self._epsilon_at(power_2))

    def _epsilon_at(self, power_2):
        """Returns the value to add to the square root of the uncorrected second moment."""
        return self.epsilon * ops.sqrt(1 - power_2) if self.epsilon_form == "torch" else self.epsilon

    def _powers(self, dtype):
        """Returns the betas to the power of the step for bias correction; zeros without correction."""
        if not self.bias_correction:
            return ops.cast(0.0, dtype), ops.cast(0.0, dtype)
        step = ops.cast(self.iterations + 1, dtype)
        return ops.power(ops.cast(self.beta_1, dtype), step), ops.power(ops.cast(self.beta_2, dtype), step)

    def _apply_weight_decay(self, variables):
        """Does nothing, because `update_step` decays."""

    def finalize_variable_values(self, var_list):
        """Does nothing, because `fit` calls it at the end of every part of a run; see `overwrite_with_averages`."""

    def overwrite_with_averages(self, variables: list[keras.Variable]) -> None:
        """Replaces the `variables` by their moving averages, if there are any."""
        if self.use_ema:
            self._overwrite_model_variables_with_average_value(variables)

    def _clip_gradients(self, grads):
        grads = [dense(grad) for grad in grads]
        if not self.global_clipnorm:
            return super()._clip_gradients(grads)
        norm = global_norm(grads)
        # NaN where the norm is not finite.
        scale = ops.minimum(1.0, self.global_clipnorm / norm) + (norm - norm)
        return [grad * scale for grad in grads]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return list(grads_and_vars)


@keras.saving.register_keras_serializable(package="bert_tf")
class Lamb(AdamW):
    """LAMB (arXiv 1904.00962, algorithm 2): the step of each variable is proportional to its norm.

    As in the authors' code, variables without weight decay take plain Adam steps. The bound of the norm (phi) is the
    identity, and a norm of zero means the ratio 1.
    """

    def _move(self, variable, gradient, rate, decay, index):
        direction = self._adam_direction(variable, gradient, index)
        if decay:
            value = ops.convert_to_tensor(variable)
            direction = direction + decay * value
            # `ops.norm` takes vectors and matrices only; attention kernels have three axes.
            weight, step = (ops.sqrt(ops.sum(ops.square(tensor))) for tensor in (value, direction))
            positive = ops.logical_and(weight > 0, step > 0)
            rate = rate * ops.where(positive, ops.divide_no_nan(weight, step), 1.0)
        self.assign_sub(variable, rate * direction)


@keras.saving.register_keras_serializable(package="bert_tf")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras loss scaling over the global gradient, which each replica receives.

    Keras 3.15 treats the gradient of an embedding look-up as finite in all cases (`isfinite` of IndexedSlices is always
    true), so an overflow there ends in NaN weights. Here the gradient is made dense first.
    """

    def apply(self, grads, trainable_variables=None):
        """Makes the gradients dense and applies them."""
        super().apply([dense(grad) for grad in grads], trainable_variables)


def global_norm(gradients: Sequence[Any]) -> Any:
    """Returns the global norm of dense gradients, a float32 scalar."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # One pass over memory instead of three for separate squares. Two calls in a step compute it once.
        return tf.linalg.global_norm(gradients)
    return ops.sqrt(ops.sum(ops.stack([ops.sum(ops.square(gradient)) for gradient in gradients])))


def dense(gradient: Any) -> Any:
    """Returns a gradient as one tensor; the slices of an embedding look-up are added up (`keras.ops` cannot)."""
    if keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
