"""Training backend for JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import keras
import numpy as np

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.data.input.dataset import Batches, Dataset
from bert_tf.training.backends.base import Backend, Model
from bert_tf.training.backends.jax_steps import JaxTrainingModel
from bert_tf.training.losses import Objective
from bert_tf.training.validation import check_batch


class JaxBackend(Backend):
    """JAX on one device, or on several local devices with Keras data parallelism."""

    compiles_each_shape = True
    most_widths = 4

    def __init__(self) -> None:
        self._distribution: keras.distribution.Distribution | None = None

    @contextlib.contextmanager
    def build_scope(self, config: TrainingConfig) -> Iterator[None]:
        """Enters the scope of the devices; `mirrored` takes `num_replicas` of them, or all."""
        devices = _replica_devices(config.num_replicas) if config.strategy == "mirrored" else []
        check_batch(config, max(1, len(devices)))
        if devices:
            self._distribution = keras.distribution.DataParallel(devices=devices)
        with self.run_scope():
            yield

    @contextlib.contextmanager
    def run_scope(self) -> Iterator[None]:
        """Enters the scope of the devices again."""
        with self._distribution.scope() if self._distribution else contextlib.nullcontext():
            yield

    def training_model(self, model: keras.Model, objective: Objective, parts: int = 1) -> JaxTrainingModel:
        """Returns the training model that takes its steps on JAX."""
        return JaxTrainingModel(model, objective, parts)

    def batches(self, dataset: Dataset) -> Any:
        """Returns a tf.data dataset unchanged, and any other dataset as the generator that Keras requires."""
        return (batch for batch in dataset) if isinstance(dataset, Batches) else dataset

    def compile_predict(self, model: keras.Model) -> Model:
        """Returns the compiled model; each batch shape is compiled once."""

        def values(trainable: Any, non_trainable: Any, inputs: Any) -> Any:
            return model.stateless_call(trainable, non_trainable, inputs, training=False)[0]

        compiled = jax.jit(values)

        def call(inputs: Mapping[str, np.ndarray]) -> Any:
            state = ([v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables))
            return jax.tree.map(np.asarray, compiled(*state, dict(inputs)))

        return call

    @property
    def num_devices(self) -> int:
        """Number of replicas."""
        return self._distribution.num_model_replicas if self._distribution else 1

    @property
    def num_replicas(self) -> int:
        """Number of replicas."""
        return self.num_devices

    def array_of(self, variable: keras.Variable) -> np.ndarray:
        """Returns the value of a variable without the host copy that JAX would keep with the variable."""
        return np.asarray(variable.value.addressable_data(0))


def _replica_devices(num_replicas: int) -> list[str]:
    devices = keras.distribution.list_devices(jax.default_backend())
    if num_replicas > len(devices):
        raise ConfigError(
            f"`training.num_replicas` must not exceed the number of devices that JAX sees. "
            f"Received: {num_replicas} and {len(devices)}"
        )
    return devices[: num_replicas or len(devices)]
