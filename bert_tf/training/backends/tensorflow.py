"""Training backend for TensorFlow, with a training step in one or several parts and under any strategy.

In Keras 3.15 the built-in train function fails under MultiWorkerMirroredStrategy, and gradient accumulation fails under
MirroredStrategy. `fit` runs this step instead, with Keras's callbacks and data adapters.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from bert_tf.config import TrainingConfig
from bert_tf.data.input.dataset import Dataset
from bert_tf.data.schema import PADDING_MASK
from bert_tf.encoding.inference import compiled
from bert_tf.encoding.rows import Model
from bert_tf.optim.optimizers import dense
from bert_tf.training.backends.base import Backend
from bert_tf.training.distributed.strategies import strategy_scope
from bert_tf.training.distributed.workers import TensorFlowWorkers
from bert_tf.training.losses import TrainingModel

# Most distinct row lengths of a task's batches if each is compiled.
_MOST_COMPILED_WIDTHS = 4


class TensorFlowTrainingModel(TrainingModel):
    """Takes steps with the gradient of the global batch.

    If `parts` is more than 1, a replica computes its rows in that many equal parts, one after the other, and takes one
    step for all of them. The weights of the whole batch are summed before the first part. The gradient is therefore
    that of the whole batch, however its weights are distributed over the parts. (Keras takes the mean of the parts'
    means, and counts each part as a step of the schedule.) Dropout masks differ from those of the whole batch.
    """

    def over_replicas(self, tensors):
        """Returns each dense tensor of one replica, summed over all replicas."""
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return tensors
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    def train_step(self, data: Any):
        """Takes one step with one replica's rows; returns the loss of the global batch."""
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        totals = self.total_weights(targets, weights)
        if self.parts == 1:
            loss, sums, gradients = self._differentiated(inputs, targets, weights, totals)
        else:
            loss, sums, gradients = self._in_parts((inputs, targets, weights), totals)
        gradients = self.over_replicas(gradients)
        self.note(inputs, sums)
        (loss,) = self.over_replicas([loss])
        self.note_finite(loss, self.note_gradients(gradients))
        self.optimizer.apply(gradients, self.trainable_weights)
        return loss

    def compiled_train_step(self) -> Callable[[Any], Any]:
        """Returns the function of a step."""
        strategy = self.distribute_strategy

        @tf.function
        def step(iterator):
            began = tf.timestamp()
            with tf.control_dependencies([began]):
                data = iterator.get_next()
            with tf.control_dependencies(tf.nest.flatten(data, expand_composites=True)):
                ended = tf.timestamp()
            strategy.run(self.train_step, args=(data,))
            return began, ended, _shape_of(data)

        def train_function(iterator):
            # These operations exist on CPUs only, so that reading them does not wait for another device.
            began, ended, shape = step(iterator)
            self.input_wait += float(ended) - float(began)
            if self.use_xla:
                self.compiled_shapes.add(shape.numpy().decode())
            return {}

        @tf.function
        def unwatched(iterator):
            strategy.run(self.train_step, args=(iterator.get_next(),))
            return {}

        # The host of a TPU may be another machine.
        return unwatched if isinstance(strategy, tf.distribute.TPUStrategy) else train_function

    def compiled_test_step(self) -> Callable[[Any], Any]:
        """Returns the function of a batch to evaluate."""
        strategy = self.distribute_strategy

        @tf.function
        def test_function(iterator):
            strategy.run(self.test_step, args=(iterator.get_next(),))
            return {}

        return test_function

    def test_step(self, data: Any) -> None:
        """Updates the metrics with one replica's rows."""
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
        self.note(inputs, self.weighted_sums(targets, self(inputs, training=False), weights))

    def _differentiated(self, inputs, targets, weights, totals):
        """Returns share of the loss, sums and scaled gradients for some rows."""
        work = self._compiled_gradients if self.use_xla else self._gradients
        return work(inputs, targets, weights, totals)

    @functools.cached_property
    def _compiled_gradients(self) -> Callable[..., Any]:
        # Sums over replicas stay outside: XLA does not compile them under MirroredStrategy.
        return tf.function(self._gradients, jit_compile=True)

    def _gradients(self, inputs, targets, weights, totals):
        with tf.GradientTape() as tape:
            sums = self.weighted_sums(targets, self(inputs, training=True), weights)
            loss = self.share_of(sums, totals)
            scaled = self.optimizer.scale_loss(loss)
        return loss, sums, [dense(gradient) for gradient in tape.gradient(scaled, self.trainable_weights)]

    def _in_parts(self, batch, totals):
        parts = tree.map_structure(self._split, batch)

        def add(part, *sums):
            inputs, targets, weights = tree.map_structure(lambda values: values[part], parts)
            part_sums = self._differentiated(inputs, targets, weights, totals)
            return part + 1, *tree.map_structure(tf.add, sums, part_sums)

        zeros = (
            tf.constant(0.0),
            {output: tf.zeros(3) for output in totals},
            [tf.zeros(variable.shape) for variable in self.trainable_weights],
        )
        return tf.while_loop(lambda part, *_: part < self.parts, add, (0, *zeros), parallel_iterations=1)[1:]

    def _split(self, values):
        """Returns the rows (B, ...) as equal parts, (parts, B / parts, ...)."""
        shape = tf.shape(values)
        return tf.reshape(values, tf.concat([[self.parts, shape[0] // self.parts], shape[1:]], axis=0))

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing, because the model is built. Keras would draw a batch, which fails with several workers."""


def _shape_of(data: Any) -> tf.Tensor:
    """Returns the shape of the first replica's rows, such as `32x128`, as a string."""
    mask = tf.nest.flatten(data[0][PADDING_MASK], expand_composites=True)[0]
    return tf.strings.reduce_join(tf.strings.as_string(tf.shape(mask)), separator="x")


class TensorFlowBackend(Backend):
    """TensorFlow under a `tf.distribute` strategy."""

    training_model = TensorFlowTrainingModel
    workers: TensorFlowWorkers | None = None

    def __init__(self) -> None:
        self._strategy = tf.distribute.get_strategy()

    @contextlib.contextmanager
    def build_scope(self, config: TrainingConfig) -> Iterator[None]:
        """Enters the scope of the strategy."""
        with strategy_scope(config) as strategy:
            self._strategy = strategy
            if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
                self.workers = TensorFlowWorkers(strategy)
            if self.uses_xla(config):
                self.compiles_each_shape, self.most_widths = True, _MOST_COMPILED_WIDTHS
            yield

    def uses_xla(self, config: TrainingConfig) -> bool:
        """Returns True if XLA compiles the forward and backward pass; a TPU compiles the whole step."""
        has_gpu = bool(tf.config.list_logical_devices("GPU"))
        return config.jit_compile == "true" or (config.jit_compile == "auto" and has_gpu)

    def batches(self, dataset: Dataset) -> Any:
        """Returns the dataset, divided among the replicas of this worker if there are several workers."""
        return self.workers.distributed(dataset) if self.workers else dataset

    def compile_predict(self, model: keras.Model) -> Model:
        """Returns the model as a graph that takes batches of any size."""
        return compiled(model)

    @property
    def num_devices(self) -> int:
        """Number of GPUs that TensorFlow sees in all processes, at least 1 in each."""
        return self.share.count * max(1, len(tf.config.list_logical_devices("GPU")))

    @property
    def device_kind(self) -> str:
        """Name of the first GPU, else `TPU` or `CPU`."""
        if gpus := tf.config.list_physical_devices("GPU"):
            return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
        return "TPU" if isinstance(self._strategy, tf.distribute.TPUStrategy) else "CPU"

    @property
    def num_replicas(self) -> int:
        """Number of replicas in all processes."""
        return self._strategy.num_replicas_in_sync

    def raise_on_lost_worker(self, step: Callable[[], int]) -> AbstractContextManager[None]:
        """Raises TrainingError if another worker has ended."""
        return self.workers.raise_on_lost_worker(step) if self.workers else nullcontext()
