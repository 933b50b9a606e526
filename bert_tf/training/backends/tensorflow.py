"""Training backend for TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config import TrainingConfig
from bert_tf.data.input.dataset import Dataset
from bert_tf.training.backends.base import Backend, Model
from bert_tf.training.backends.tensorflow_steps import TensorFlowTrainingModel
from bert_tf.training.distributed.strategies import strategy_scope
from bert_tf.training.distributed.workers import Workers
from bert_tf.training.losses import Objective


class TensorFlowBackend(Backend):
    """TensorFlow under a `tf.distribute` strategy."""

    def __init__(self) -> None:
        self._strategy = tf.distribute.get_strategy()
        self._workers: Workers | None = None

    @contextlib.contextmanager
    def build_scope(self, config: TrainingConfig) -> Iterator[None]:
        """Enters the scope of the strategy."""
        with strategy_scope(config) as strategy:
            self._strategy = strategy
            if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
                self._workers = Workers(strategy)
                self.is_chief = self._workers.is_chief
            yield

    def training_model(self, model: keras.Model, objective: Objective, parts: int = 1) -> TensorFlowTrainingModel:
        """Returns the training model that takes its steps on TensorFlow."""
        return TensorFlowTrainingModel(model, objective, parts)

    def batches(self, dataset: Dataset) -> Any:
        """Returns the dataset, distributed over the workers if there are several."""
        return self._workers.own_rows(dataset) if self._workers else dataset

    def compile_predict(self, model: keras.Model) -> Model:
        """Returns the model as a graph that takes batches of any size."""
        specification = {
            name: tf.TensorSpec([None] * len(tensor.shape), tensor.dtype, name=name)
            for name, tensor in model.input.items()
        }
        call = tf.function(lambda inputs: model(inputs, training=False), input_signature=[specification])
        return lambda inputs: tf.nest.map_structure(lambda output: output.numpy(), call(dict(inputs)))

    @property
    def num_devices(self) -> int:
        """Number of GPUs that TensorFlow sees, at least 1."""
        return max(1, len(tf.config.list_logical_devices("GPU")))

    @property
    def num_replicas(self) -> int:
        """Number of replicas in all processes."""
        return self._strategy.num_replicas_in_sync

    def any_worker(self) -> Callable[[bool], bool] | None:
        """Returns the logical OR over all workers, None for a run of one process."""
        if self._workers is None:
            return None
        gather = self._workers.gather()
        return lambda vote: any(gather(int(vote)))

    def check_same_step(self, step: int) -> None:
        """Checks that all workers resume after the same step."""
        if self._workers:
            self._workers.check_same_step(step)

    def raise_on_lost_worker(self, step: Callable[[], int]) -> AbstractContextManager[None]:
        """Raises TrainingError if another worker has ended."""
        return self._workers.raise_on_lost_worker(step) if self._workers else nullcontext()
