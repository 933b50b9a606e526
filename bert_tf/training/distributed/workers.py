"""Workers of a run: the chief, lost workers, and each worker's rows of a batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from bert_tf.training.distributed.tf_config import Cluster
from bert_tf.training.loop.checkpoints import TrainingError

# Errors of a collective operation after a worker is lost, and the name of the worker in them.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
_TASK = re.compile(r"^/job:worker/replica:\d+/task:(\d+)$", re.MULTILINE)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns True in the process of the run that writes files."""
    return not is_one_of_several(strategy) or Cluster.from_environment().index == 0


def is_one_of_several(strategy: tf.distribute.Strategy) -> bool:
    """Returns True if the run has several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@contextlib.contextmanager
def raise_on_lost_worker(strategy: tf.distribute.Strategy, step: Callable[[], int]) -> Iterator[None]:
    """Raises TrainingError if TensorFlow reports that another worker has ended.

    Args:
        strategy: the strategy of the run; with one process nothing is done.
        step: returns the finished steps.
    """
    try:
        yield
    except _LOST as error:
        if not is_one_of_several(strategy):
            raise
        task = _TASK.search(str(error))
        cluster = Cluster.from_environment()
        # TensorFlow does not always name the lost worker.
        peers = [worker for index, worker in enumerate(cluster.workers) if index != cluster.index]
        lost = cluster.workers[int(task[1])] if task else " or ".join(peers)
        raise TrainingError(
            f"step {step()}: another worker was lost ({lost}). Start all workers again with the same command to resume "
            "from the last checkpoint."
        ) from error


def spread(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Any:
    """Returns the dataset in the form that `fit` takes; with several workers, only this worker's rows.

    Every worker builds the whole batches, which are functions of seed and step, and keeps its own rows of each. The
    global batch is the same as in a run of one process, in the same order.

    Args:
        dataset: global batches; the replicas of all workers divide their rows.
        strategy: the strategy of the run.
    """
    if not is_one_of_several(strategy):
        return dataset

    def own_rows(context: tf.distribute.InputContext) -> tf.data.Dataset:
        workers, worker = context.num_input_pipelines, context.input_pipeline_id
        replicas = context.num_replicas_in_sync // workers

        def rows(*batch):
            """Returns the rows of each replica of this worker: (replicas, rows of a replica, ...)."""

            def of(values):
                shape = tf.shape(values)
                share = tf.reshape(
                    values, tf.concat([[workers, replicas, shape[0] // (workers * replicas)], shape[1:]], 0)
                )
                return share[worker]

            return tf.nest.map_structure(of, batch)

        return dataset.map(rows, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()

    return strategy.distribute_datasets_from_function(own_rows)
