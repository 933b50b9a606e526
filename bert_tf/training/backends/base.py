"""What a run needs of Keras's backend: devices, steps, and the data as `fit` takes them."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from bert_tf.config import TrainingConfig
from bert_tf.data.input.batches import Dataset
from bert_tf.training.losses import Objective, TrainingModel

# Numbers of rows that packed batches may have where each is compiled.
_MOST_SHAPES = 8
# A model as a function: inputs by name to what it gives, without dropout.
Model = Callable[[Mapping[str, np.ndarray]], Any]
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class Backend(ABC):
    """A backend, as one run uses it."""

    is_chief: bool = True
    """Whether this process is the one that writes, among those of the run."""

    compiles_each_shape: bool = False
    """Whether batches of another shape cost a compilation."""

    most_widths: int = 32
    """Lengths of rows that the batches of a task may have, for little padding."""

    @abstractmethod
    def build_scope(self, config: TrainingConfig) -> AbstractContextManager[None]:
        """Enters the scope in which model, optimizer and metrics of the run must be built, once.

        Args:
            config: `strategy`, `num_replicas`, `batch_size` and `accumulate` are read.

        Raises:
            ConfigError: where the strategy, the devices and the batch do not go together.
            TrainingError: where other processes of the run do not answer.
        """

    def run_scope(self) -> AbstractContextManager[None]:
        """Enters the scope in which the model is trained and evaluated."""
        return nullcontext()

    @abstractmethod
    def training_model(self, model: keras.Model, objective: Objective, parts: int = 1) -> TrainingModel:
        """Returns `model` with `objective`, which takes its steps in `parts`."""

    @abstractmethod
    def batches(self, dataset: Dataset) -> Any:
        """Returns what `fit` and `evaluate` take in the place of a dataset of global batches."""

    @abstractmethod
    def compile_predict(self, model: keras.Model) -> Model:
        """Returns `model` as a compiled function that reads the variables anew at each call.

        It takes int32 arrays by input name, and gives numpy arrays in the structure of the model's output.
        """

    @property
    @abstractmethod
    def num_devices(self) -> int:
        """Devices that compute, over which the operations of a step are spread."""

    @property
    @abstractmethod
    def num_replicas(self) -> int:
        """Copies of the model, each of which takes its share of the rows of a batch."""

    def rows_multiple(self, config: TrainingConfig) -> int:
        """Returns what the rows of a packed batch must be a multiple of, or had better be."""
        least = self.num_replicas * config.accumulate
        if not self.compiles_each_shape:
            return least
        return least * max(1, math.ceil(config.batch_size / (least * _MOST_SHAPES)))

    def array_of(self, variable: keras.Variable) -> np.ndarray:
        """Returns the value of a variable, in memory that is free again with the array."""
        return keras.ops.convert_to_numpy(variable)

    def any_worker(self) -> Callable[[bool], bool] | None:
        """Returns what tells each process of a run whether any of them says yes; `None` for a run of one process."""
        return None

    def check_same_step(self, step: int) -> None:  # noqa: B027 one process agrees with itself
        """Makes sure that all processes of the run go on after the same step.

        Args:
            step: finished steps of the checkpoint that this process read.

        Raises:
            TrainingError: where they read different checkpoints, as without a common file system.
        """

    def raise_on_lost_worker(self, step: Callable[[], int]) -> AbstractContextManager[None]:
        """Raises a TrainingError where another process of the run has ended; `step` gives the finished steps."""
        return nullcontext()


@contextlib.contextmanager
def precision_scope(config: TrainingConfig) -> Iterator[None]:
    """Sets the Keras dtype policy of `config.precision` for what is built inside, and the former one after.

    Args:
        config: `precision` is read; weights are float32 under each.
    """
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[config.precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(former)
