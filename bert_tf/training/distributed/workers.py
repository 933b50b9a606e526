"""Workers of a run on TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.distributed.collectives import Workers
from bert_tf.training.distributed.rendezvous import Cluster

# Errors of a collective operation after a worker is lost, and the name of the worker in them.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
_TASK = re.compile(r"^/job:worker/replica:\d+/task:(\d+)$", re.MULTILINE)


class TensorFlowWorkers(Workers):
    """The processes of a run under `MultiWorkerMirroredStrategy`.

    Args:
        strategy: strategy of the run.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        cluster = Cluster.from_environment()
        super().__init__(cluster.workers, cluster.index)
        self._strategy = strategy

    def gather(self, values: Sequence[int]) -> np.ndarray:
        """Returns the numbers of all workers, in their order: (workers, n) from n int32 numbers of each."""
        gathered = self._gather(tf.constant(values, tf.int64)).numpy()
        # One row per replica: those of one worker are adjacent and equal.
        return gathered[:: len(gathered) // len(self.names)]

    @functools.cached_property
    def _gather(self) -> Callable[[tf.Tensor], tf.Tensor]:
        @tf.function(input_signature=[tf.TensorSpec((None,), tf.int64)])
        def gather(numbers):
            def of_replica(values):
                context = tf.distribute.get_replica_context()
                return context.all_gather(values[tf.newaxis], axis=0)

            run = self._strategy.run(of_replica, args=(numbers,))
            return self._strategy.experimental_local_results(run)[0]

        return gather

    @contextlib.contextmanager
    def raise_on_lost_worker(self, step: Callable[[], int]) -> Iterator[None]:
        """Raises TrainingError if TensorFlow reports that another worker has ended; `step` returns finished steps."""
        try:
            yield
        except _LOST as error:
            # TensorFlow does not always name the lost worker.
            task = _TASK.search(str(error))
            raise self.lost(step(), self.names[int(task[1])] if task else "") from error

    def distributed(self, dataset: tf.data.Dataset) -> Any:
        """Returns this worker's rows of each batch, divided among its replicas, in the form that `fit` takes."""

        def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            replicas = context.num_replicas_in_sync // context.num_input_pipelines

            def rows(*batch):
                """Returns the rows of each replica: (replicas, rows of a replica, ...)."""

                def of(values):
                    shape = tf.shape(values)
                    return tf.reshape(values, tf.concat([[replicas, shape[0] // replicas], shape[1:]], 0))

                return tf.nest.map_structure(of, batch)

            return dataset.map(rows, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()

        return self._strategy.distribute_datasets_from_function(of_worker)
