"""One training step on TensorFlow, in one or several parts and under any strategy.

Keras 3.15's own function of a step fails under MultiWorkerMirroredStrategy, and its accumulation of gradients under
MirroredStrategy; `fit` runs this one instead, with the callbacks and data adapters that are Keras's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from bert_tf.training.distributed.strategies import dense, sum_over_replicas
from bert_tf.training.distributed.tpu import is_tpu
from bert_tf.training.losses import INPUT_WAIT, LOSS, Objective, TrainingModel


class TensorFlowTrainingModel(TrainingModel):
    """Takes steps with the gradient of the global batch.

    Where `parts` is more than 1, a replica works through its rows in that many equal parts, one after the other, and
    one step is taken for all of them. The weights of the whole batch are summed before the first part, so that the
    gradient is that of the whole batch however unevenly its weights fall on the parts. (Keras takes the mean of the
    parts' means, and counts each part as a step of the schedule.) Dropout draws other masks than for the whole batch.

    Args:
        model, objective: as for `TrainingModel`.
        parts: what the rows of one replica divide by.
    """

    def __init__(self, model: keras.Model, objective: Objective, parts: int = 1) -> None:
        super().__init__(model, objective)
        self.parts = parts
        self._made: Callable[[Any], Any] | None = None
        self._made_test: Callable[[Any], Any] | None = None

    def over_replicas(self, tensors):
        """Returns each tensor, dense and of one replica, summed over all of them."""
        return sum_over_replicas(tensors)

    def train_step(self, data: Any):
        """Takes one step with one replica's rows; returns its share of the global loss."""
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        totals = self.total_weights(targets, weights)
        if self.parts == 1:
            loss, sums, gradients = self._differentiated(inputs, targets, weights, totals)
        else:
            loss, sums, gradients = self._in_parts((inputs, targets, weights), totals)
        gradients = self.over_replicas(gradients)
        self.note(inputs, sums)
        norm = self.note_gradients(gradients)
        self.optimizer.apply(gradients, self.trainable_weights)
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            # Its gradients may overflow: it leaves the step out then, and scales the loss less.
            return loss
        # What is not finite in the norm makes the loss NaN, and stops the run before the weights are used again.
        return loss + 0.0 * norm / self.distribute_strategy.num_replicas_in_sync

    def make_train_function(self, force: bool = False) -> None:
        """Builds what `fit` calls once a step: it gives the global loss and the seconds spent waiting for data.

        On a TPU it gives nothing.
        """
        if self._made is not None and not force:
            return
        strategy = self.distribute_strategy

        def step(data):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(self.train_step, args=(data,)), axis=None)

        @tf.function
        def train_function(iterator):
            began = tf.timestamp()
            with tf.control_dependencies([began]):
                data = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(data, expand_composites=True)):
                waited = tf.timestamp() - began
            return {LOSS: step(data), INPUT_WAIT: waited}

        @tf.function
        def unwatched(iterator):
            strategy.run(self.train_step, args=(iterator.get_next(),))
            return {}

        # What the host reads of every step, a TPU waits for at every step; the metrics hold the loss too.
        self._made = self.train_function = unwatched if is_tpu(strategy) else train_function

    def make_test_function(self, force: bool = False) -> None:
        """Builds what `evaluate` calls once a batch: it counts in the metrics."""
        if self._made_test is not None and not force:
            return
        strategy = self.distribute_strategy

        @tf.function
        def test_function(iterator):
            strategy.run(self.test_step, args=(iterator.get_next(),))
            return {}

        self._made_test = self.test_function = test_function

    def test_step(self, data: Any) -> None:
        """Counts one replica's rows in the metrics."""
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        self.note(inputs, self.weighted_sums(targets, self(inputs, training=False), weights))

    def _differentiated(self, inputs, targets, weights, totals):
        """Returns share of the loss, sums, and scaled gradients of some rows."""
        with tf.GradientTape() as tape:
            sums = self.weighted_sums(targets, self(inputs, training=True), weights)
            loss = self.share_of(sums, totals)
            scaled = self.optimizer.scale_loss(loss)
        return loss, sums, [dense(gradient) for gradient in tape.gradient(scaled, self.trainable_weights)]

    def _in_parts(self, batch, totals):
        parts = tree.map_structure(self._split, batch)

        def add(part, *sofar):
            inputs, targets, weights = tree.map_structure(lambda values: values[part], parts)
            found = self._differentiated(inputs, targets, weights, totals)
            return part + 1, *tree.map_structure(tf.add, sofar, found)

        nothing = (
            tf.constant(0.0),
            {output: tf.zeros(3) for output in totals},
            [tf.zeros(variable.shape) for variable in self.trainable_weights],
        )
        return tf.while_loop(lambda part, *_: part < self.parts, add, (0, *nothing), parallel_iterations=1)[1:]

    def _split(self, values):
        """Returns (parts, B / parts, ...): the rows (B, ...) of every part."""
        shape = tf.shape(values)
        return tf.reshape(values, tf.concat([[self.parts, shape[0] // self.parts], shape[1:]], axis=0))

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing: the model is built. Keras would draw a batch, and cannot take that of several workers."""
