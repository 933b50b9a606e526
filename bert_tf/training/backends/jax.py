"""Training backend for JAX, with a training step in one or several parts.

The step is a pure function of the state, compiled for each batch shape. `fit` passes the state (weights, other model
variables, optimizer, metrics) from step to step and donates its memory. `synchronize` copies the state back into the
variables.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.data.input.dataset import Batches, Dataset
from bert_tf.data.schema import PADDING_MASK
from bert_tf.encoding.rows import Model
from bert_tf.training.backends.base import Backend
from bert_tf.training.distributed.jax_processes import JaxWorkers, start_processes
from bert_tf.training.losses import TrainingModel
from bert_tf.training.validation import check_batch


class JaxTrainingModel(TrainingModel):
    """Takes steps with the gradient of the global batch on any number of devices; see `TensorFlowTrainingModel`."""

    def synchronize(self) -> None:
        """Copies the state of the last step into the variables; the next step starts from them."""
        self.jax_state_sync()

    def train_step(self, state: Any, data: Any):
        """Takes one step; returns the loss of the global batch and the new state."""
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
            self.note_finite(loss, self.note_gradients(gradients))
        metrics = _values(scope, self.metrics_variables)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        return loss, (trainable, others, optimizer, metrics)

    def compiled_train_step(self) -> Callable[[Any, Any], Any]:
        """Returns the function of a step."""

        # A new function each time: JAX would reuse the compiled program of an equal one, with the former rates.
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

        last_loss = None

        def train_function(state, iterator):
            nonlocal last_loss
            began = time.perf_counter()
            data = next(iterator)
            self.input_wait += time.perf_counter() - began
            self.compiled_shapes.add("x".join(map(str, data[0][PADDING_MASK].shape)))
            loss, state = compiled(state, data)
            # The host is one step ahead: further ahead, it would wait for data that no device needs yet.
            jax.block_until_ready(last_loss)
            last_loss = loss
            return {}, state

        return train_function

    def compiled_test_step(self) -> Callable[[Any, Any], Any]:
        """Returns the function of a batch to evaluate."""

        def step(metrics, trainable, others, data):
            inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(data)
            logits, _ = self.stateless_call(trainable, others, inputs, training=False)
            with keras.StatelessScope(_mapping(self.metrics_variables, metrics)) as scope:
                self.note(inputs, self.weighted_sums(targets, logits, weights))
            return _values(scope, self.metrics_variables)

        # Weights are not donated: the optimizer's moving averages may be the same arrays.
        compiled = jax.jit(step, donate_argnums=0)

        def test_function(state, iterator):
            trainable, others, metrics = state
            return {}, (trainable, others, compiled(metrics, trainable, others, next(iterator)))

        return test_function

    def _differentiated(self, trainable, others, batch, totals, scale):
        """Returns share of the loss, sums, scaled gradients and updated other variables for some rows."""
        inputs, targets, weights = batch

        def scaled_loss(trainable):
            logits, after = self.stateless_call(trainable, others, inputs, training=True)
            sums = self.weighted_sums(targets, logits, weights)
            loss = self.share_of(sums, totals)
            return loss * scale, (loss, sums, after)

        gradients, (loss, sums, after) = jax.grad(scaled_loss, has_aux=True)(trainable)
        return loss, sums, gradients, after

    def _in_parts(self, trainable, others, batch, totals, scale):
        def add(carry, part):
            *sums, others = carry
            *part_sums, others = self._differentiated(trainable, others, part, totals, scale)
            return (*jax.tree.map(jnp.add, sums, part_sums), others), None

        zeros = (
            jnp.float32(0.0),
            {output: jnp.zeros(3, jnp.float32) for output in totals},
            [jnp.zeros_like(value) for value in trainable],
        )
        return jax.lax.scan(add, (*zeros, others), jax.tree.map(self._split, batch))[0]

    def _split(self, values):
        """Returns the rows (B, ...) as equal parts, (parts, B / parts, ...)."""
        return values.reshape(self.parts, values.shape[0] // self.parts, *values.shape[1:])

    def _symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing, because the model is built. Keras would draw a batch."""


class JaxBackend(Backend):
    """JAX on one device, or on the devices of one or several processes with Keras data parallelism."""

    compiles_each_shape = True
    most_widths = 4
    training_model = JaxTrainingModel
    # Dropout masks are those of the global batch, whichever devices hold its rows.
    free_settings = ("training.strategy", "training.num_replicas")
    workers: JaxWorkers | None = None

    def __init__(self) -> None:
        self._distribution: keras.distribution.Distribution | None = None
        self._rows_differ = False

    @contextlib.contextmanager
    def build_scope(self, config: TrainingConfig) -> Iterator[None]:
        """Enters the scope of the devices.

        `mirrored` takes `num_replicas` devices of this process, or all; `multi_worker` those of all processes.
        """
        if config.strategy == "multi_worker":
            self.workers = start_processes(config)
        with self._left_on_error():
            devices = [] if config.strategy == "none" else _replica_devices(config.num_replicas)
            check_batch(config, max(1, len(devices)))
            if devices:
                # Each process passes its own rows.
                self._distribution = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
            self._rows_differ = config.padding == "pack" and self.workers is not None
        with self.run_scope():
            yield

    @contextlib.contextmanager
    def run_scope(self) -> Iterator[None]:
        """Enters the scope of the devices again."""
        with (
            self._left_on_error(),
            self._distribution.scope() if self._distribution else contextlib.nullcontext(),
        ):
            yield

    def _left_on_error(self) -> AbstractContextManager[None]:
        return self.workers.leave_on_error() if self.workers else contextlib.nullcontext()

    def raise_on_lost_worker(self, step: Callable[[], int]) -> AbstractContextManager[None]:
        """Raises TrainingError if another worker has ended."""
        return self.workers.raise_on_lost_worker(step) if self.workers else contextlib.nullcontext()

    def batches(self, dataset: Dataset) -> Any:
        """Returns a tf.data dataset unchanged, and any other dataset as the generator that Keras requires.

        Packed batches of several processes get as many rows as the largest of them, because JAX joins equal shares.
        """
        if self.workers and self._rows_differ:
            return self._with_equal_rows(dataset, self.workers)
        return (batch for batch in dataset) if isinstance(dataset, Batches) else dataset

    def _with_equal_rows(self, dataset: Dataset, workers: JaxWorkers) -> Iterator[Any]:
        for batch in dataset:
            arrays = jax.tree.map(np.asarray, batch)
            rows = len(jax.tree.leaves(arrays)[0])
            missing = int(workers.gather([rows]).max()) - rows
            yield jax.tree.map(functools.partial(_with_empty_rows, count=missing), arrays)

    def compile_predict(self, model: keras.Model) -> Model:
        """Returns the compiled model; each batch shape is compiled once."""

        def values(trainable: Any, non_trainable: Any, inputs: Any) -> Any:
            return model.stateless_call(trainable, non_trainable, inputs, training=False)[0]

        compiled = jax.jit(values)

        def call(inputs: Mapping[str, np.ndarray]) -> Any:
            state = ([v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables))
            return jax.tree.map(np.asarray, compiled(*state, dict(inputs)))

        return call

    def uses_xla(self, config: TrainingConfig) -> bool:
        """Returns True."""
        return True

    @property
    def num_devices(self) -> int:
        """Number of replicas."""
        return self._distribution.num_model_replicas if self._distribution else 1

    @property
    def device_kind(self) -> str:
        """Name of the first device."""
        device = jax.devices()[0]
        return "CPU" if device.platform == "cpu" else device.device_kind

    @property
    def num_replicas(self) -> int:
        """Number of replicas."""
        return self.num_devices

    def array_of(self, variable: keras.Variable) -> np.ndarray:
        """Returns the value of a variable without the host copy that JAX would keep with the variable."""
        return np.asarray(variable.value.addressable_data(0))


def _replica_devices(num_replicas: int) -> list[str]:
    # By process: each process holds adjacent rows of a batch.
    ordered = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    devices = [f"{device.platform}:{device.id}" for device in ordered]
    if num_replicas > len(devices):
        raise ConfigError(
            f"`training.num_replicas` must not exceed the number of devices that JAX sees. "
            f"Received: {num_replicas} and {len(devices)}"
        )
    return devices[: num_replicas or len(devices)]


def _with_empty_rows(values: np.ndarray, count: int) -> np.ndarray:
    return np.pad(values, [(0, count), *[(0, 0)] * (values.ndim - 1)])


def _mapping(variables: Sequence[keras.Variable], values: Sequence[Any]) -> list[tuple[keras.Variable, Any]]:
    return list(zip(variables, values, strict=True))


def _values(scope: keras.StatelessScope, variables: Sequence[keras.Variable]) -> list[Any]:
    """Returns the final values of the variables in a scope that began with values for all of them."""
    return [scope.get_current_value(variable) for variable in variables]
