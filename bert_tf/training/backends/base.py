"""Base class of the training backends: devices, training steps and input data."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np

from bert_tf.config import TrainingConfig
from bert_tf.data.input.dataset import ALL_ROWS, Dataset, RowShare
from bert_tf.encoding.rows import Model
from bert_tf.training.distributed.collectives import Workers
from bert_tf.training.losses import TrainingModel

# Most distinct row counts of packed batches if each is compiled.
_MOST_SHAPES = 8
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class Backend(ABC):
    """A training backend, used by one run."""

    workers: Workers | None = None
    """The processes of the run; None for one process."""

    training_model: type[TrainingModel]
    """Class of the training models."""

    free_settings: Collection[str] = ()
    """Settings that do not change the steps, so that a run may be resumed with others."""

    compiles_each_shape: bool = False
    """True if each new batch shape is compiled."""

    most_widths: int = 32
    """Most distinct row lengths of a task's batches; more lengths mean less padding."""

    @abstractmethod
    def build_scope(self, config: TrainingConfig) -> AbstractContextManager[None]:
        """Enters the scope in which model, optimizer and metrics of the run must be built, once.

        Raises ConfigError if strategy, devices and batch size do not fit together, and TrainingError if other workers
        do not answer.
        """

    @property
    def is_chief(self) -> bool:
        """True in the process of the run that writes files."""
        return self.workers is None or self.workers.is_chief

    @property
    def share(self) -> RowShare:
        """Rows of each global batch that this process reads."""
        return self.workers.share if self.workers else ALL_ROWS

    def run_scope(self) -> AbstractContextManager[None]:
        """Enters the scope in which the model is trained and evaluated."""
        return nullcontext()

    @abstractmethod
    def batches(self, dataset: Dataset) -> Any:
        """Returns a dataset of this process's rows of each batch in the form that `fit` and `evaluate` take."""

    @abstractmethod
    def compile_predict(self, model: keras.Model) -> Model:
        """Returns the model compiled: int32 arrays by name to numpy arrays, with the variables of each call."""

    @property
    @abstractmethod
    def num_devices(self) -> int:
        """Number of devices that compute the operations of a step."""

    @property
    @abstractmethod
    def device_kind(self) -> str:
        """Kind of the devices that compute the operations of a step, such as `CPU` or `NVIDIA H100 80GB HBM3`."""

    @property
    @abstractmethod
    def num_replicas(self) -> int:
        """Number of copies of the model in all processes; each takes an equal share of a batch's rows."""

    def rows_multiple(self, config: TrainingConfig) -> int:
        """Returns the required or preferred multiple for this process's number of rows of a packed batch."""
        workers = self.share.count
        least = self.num_replicas // workers * config.accumulate
        if not self.compiles_each_shape:
            return least
        return least * max(1, math.ceil(config.largest_batch / (workers * least * _MOST_SHAPES)))

    @abstractmethod
    def uses_xla(self, config: TrainingConfig) -> bool:
        """Returns True if XLA compiles the forward and backward pass."""

    def array_of(self, variable: keras.Variable) -> np.ndarray:
        """Returns the value of a variable in memory that is released with the array."""
        return keras.ops.convert_to_numpy(variable)

    def agreement(self) -> Callable[[bool, int], tuple[bool, int]] | None:
        """Returns the function by which workers agree to stop; None for a run of one process."""
        return self.workers.agree if self.workers else None

    def check_same_run(self, facts: Mapping[str, Any]) -> None:
        """Raises TrainingError if workers differ in code, libraries, data or settings; `facts` are JSON values."""
        if self.workers:
            self.workers.check_same_run(facts)

    def check_same_step(self, step: int) -> None:
        """Raises TrainingError if workers read different checkpoints, as happens without a common file system."""
        if self.workers:
            self.workers.check_same_step(step)

    def raise_on_lost_worker(self, step: Callable[[], int]) -> AbstractContextManager[None]:
        """Raises TrainingError if another worker has ended; `step` returns the finished steps."""
        return nullcontext()


@contextlib.contextmanager
def precision_scope(config: TrainingConfig) -> Iterator[None]:
    """Sets the Keras dtype policy of a precision, with float32 weights, and restores the former policy at the end."""
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[config.precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(former)
