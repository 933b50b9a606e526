"""Several processes that train one model: who they are, and which rows of each batch are whose."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from bert_tf.training.distributed.tf_config import Cluster
from bert_tf.training.loop.checkpoints import TrainingError

# What a collective operation ends with when a process is gone, and how the process is named in it.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
_TASK = re.compile(r"^/job:worker/replica:\d+/task:(\d+)$", re.MULTILINE)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether this process is the one that writes, among those of a run."""
    return not is_one_of_several(strategy) or Cluster.from_environment().index == 0


def is_one_of_several(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether the run has several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@contextlib.contextmanager
def raise_on_lost_worker(strategy: tf.distribute.Strategy, step: Callable[[], int]) -> Iterator[None]:
    """Raises a TrainingError where TensorFlow finds that another process of the run has ended.

    Args:
        strategy: of the run; nothing is done where it has one process.
        step: gives the finished steps.
    """
    try:
        yield
    except _LOST as error:
        if not is_one_of_several(strategy):
            raise
        named = _TASK.search(str(error))
        cluster = Cluster.from_environment()
        # TensorFlow does not always say which one it was.
        others = [worker for index, worker in enumerate(cluster.workers) if index != cluster.index]
        which = cluster.workers[int(named[1])] if named else " or ".join(others)
        raise TrainingError(
            f"step {step()}: another worker was lost ({which}). Start all of them again with the same command: they go "
            "on from the last checkpoint."
        ) from error


def spread(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Any:
    """Returns what `fit` takes in the place of a dataset of global batches.

    Every worker makes the whole batches, which are functions of seed and step, and keeps its own rows of each: the
    batch is the one that a single process would take, in the same order.

    Args:
        dataset: global batches, whose rows divide by the replicas of all workers.
        strategy: of the run.
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
