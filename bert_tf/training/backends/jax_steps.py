"""One training step on JAX, in one or several parts: a pure function of the state, compiled for each shape of batches.

`fit` hands the state (values of weights, other variables of the model, optimizer, metrics) from step to step, and its
memory with it; the variables hold it again after `synchronize`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from bert_tf.training.losses import INPUT_WAIT, LOSS, Objective, TrainingModel


class JaxTrainingModel(TrainingModel):
    """Takes steps with the gradient of the global batch.

    What `tensorflow_steps.TensorFlowTrainingModel` says of parts holds here too. Arrays are those of the global batch,
    on however many devices they lie.

    Args:
        model, objective: as for `TrainingModel`.
        parts: what the rows of a batch divide by.
    """

    def __init__(self, model: keras.Model, objective: Objective, parts: int = 1) -> None:
        super().__init__(model, objective)
        self.parts = parts
        self._made: Callable[[Any, Any], Any] | None = None
        self._made_test: Callable[[Any, Any], Any] | None = None

    def synchronize(self) -> None:
        """Brings the state of the last step back into the variables, from which the next step then takes it."""
        self.jax_state_sync()

    def train_step(self, state: Any, data: Any):
        """Takes one step; returns the loss and the new state."""
        trainable, others, optimizer, metrics = state
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        totals = self.total_weights(targets, weights)
        with keras.StatelessScope(_mapping(self.optimizer.variables, optimizer)):
            scale = self.optimizer.scale_loss(jnp.float32(1.0))
        work = self._differentiated if self.parts == 1 else self._in_parts
        loss, sums, gradients, others = work(trainable, others, (inputs, targets, weights), totals, scale)
        mapping = _mapping(self.optimizer.variables, optimizer) + _mapping(self.metrics_variables, metrics)
        with keras.StatelessScope(mapping) as scope:
            self.note(inputs, sums)
            norm = self.note_gradients(gradients)
        metrics = _values(scope, self.metrics_variables)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            # What is not finite in the norm stops the run before the weights are used again. With loss scaling,
            # gradients may overflow: the optimizer leaves the step out then, and scales the loss less.
            loss = jnp.where(jnp.isfinite(norm), loss, jnp.nan)
        return {LOSS: loss}, (trainable, others, optimizer, metrics)

    def make_train_function(self, force: bool = False) -> None:
        """Builds what `fit` calls once a step: it gives the global loss and the seconds spent waiting for data."""
        if self._made is not None and not force:
            return

        # A function of its own each time: of an equal one, JAX would take the program with the former rates.
        def step(state, data):
            return self.train_step(state, data)

        shardings = None
        if keras.distribution.distribution() is not None:
            groups = (
                self.trainable_variables,
                self.non_trainable_variables,
                self.optimizer.variables,
                self.metrics_variables,
            )
            shardings = (None, tuple([variable.value.sharding for variable in group] for group in groups))
        compiled = jax.jit(step, donate_argnums=0, out_shardings=shardings)

        def train_function(state, iterator):
            began = time.perf_counter()
            data = next(iterator)
            waited = time.perf_counter() - began
            logs, state = compiled(state, data)
            return logs | {INPUT_WAIT: waited}, state

        self._made = self.train_function = train_function

    def make_test_function(self, force: bool = False) -> None:
        """Builds what `evaluate` calls once a batch: it counts in the metrics."""
        if self._made_test is not None and not force:
            return

        def step(metrics, trainable, others, data):
            inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
            logits, _ = self.stateless_call(trainable, others, inputs, training=False)
            with keras.StatelessScope(_mapping(self.metrics_variables, metrics)) as scope:
                self.note(inputs, self.weighted_sums(targets, logits, weights))
            return _values(scope, self.metrics_variables)

        # Weights stay where they are: the optimizer's averages may be the very same arrays.
        compiled = jax.jit(step, donate_argnums=0)

        def test_function(state, iterator):
            trainable, others, metrics = state
            return {}, (trainable, others, compiled(metrics, trainable, others, next(iterator)))

        self._made_test = self.test_function = test_function

    def _differentiated(self, trainable, others, batch, totals, scale):
        """Returns share of the loss, sums, scaled gradients and other variables after some rows."""
        inputs, targets, weights = batch

        def scaled_loss(trainable):
            logits, after = self.stateless_call(trainable, others, inputs, training=True)
            sums = self.weighted_sums(targets, logits, weights)
            loss = self.share_of(sums, totals)
            return loss * scale, (loss, sums, after)

        gradients, (loss, sums, after) = jax.grad(scaled_loss, has_aux=True)(trainable)
        return loss, sums, gradients, after

    def _in_parts(self, trainable, others, batch, totals, scale):
        def add(sofar, part):
            *counted, others = sofar
            *found, others = self._differentiated(trainable, others, part, totals, scale)
            return (*jax.tree.map(jnp.add, counted, found), others), None

        nothing = (
            jnp.float32(0.0),
            {output: jnp.zeros(3, jnp.float32) for output in totals},
            [jnp.zeros_like(value) for value in trainable],
        )
        return jax.lax.scan(add, (*nothing, others), jax.tree.map(self._split, batch))[0]

    def _split(self, values):
        """Returns (parts, B / parts, ...): the rows (B, ...) of every part."""
        return values.reshape(self.parts, values.shape[0] // self.parts, *values.shape[1:])

    def _symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing: the model is built. Keras would draw a batch."""


def _mapping(variables: Sequence[keras.Variable], values: Sequence[Any]) -> list[tuple[keras.Variable, Any]]:
    return list(zip(variables, values, strict=True))


def _values(scope: keras.StatelessScope, variables: Sequence[keras.Variable]) -> list[Any]:
    """Returns what the variables are at the end of a scope that began with values for all of them."""
    return [scope.get_current_value(variable) for variable in variables]
