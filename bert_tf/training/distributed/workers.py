"""Workers of a run: the chief, common decisions, lost workers, and each worker's rows of a batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from bert_tf.training.distributed.rendezvous import Cluster
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


class Workers:
    """The processes of a run under `MultiWorkerMirroredStrategy`; all of them call each method at the same points."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._cluster = Cluster.from_environment()
        self.is_chief = self._cluster.index == 0

    def gather(self) -> Callable[[int], list[int]]:
        """Returns a function from the number of this worker to the numbers of all workers, in their order."""
        workers = len(self._cluster.workers)

        @tf.function(input_signature=[tf.TensorSpec((), tf.int64)])
        def gather(number):
            def of_replica(value):
                context = tf.distribute.get_replica_context()
                return context.all_gather(value[tf.newaxis], axis=0)

            run = self._strategy.run(of_replica, args=(number,))
            return self._strategy.experimental_local_results(run)[0]

        def numbers(number: int) -> list[int]:
            # One number per replica: those of one worker are adjacent and equal.
            gathered = gather(tf.constant(number, tf.int64)).numpy().tolist()
            return gathered[:: len(gathered) // workers]

        return numbers

    def check_same_step(self, step: int) -> None:
        """Raises TrainingError if the workers read checkpoints of different steps."""
        steps = self.gather()(step)
        if len(set(steps)) > 1:
            workers = zip(self._cluster.workers, steps, strict=True)
            each = ", ".join(f"{worker} after step {number}" for worker, number in workers)
            raise TrainingError(
                f"all workers must resume after the same step. Received: {each}. Use an output directory that all "
                f"workers share."
            )

    @contextlib.contextmanager
    def raise_on_lost_worker(self, step: Callable[[], int]) -> Iterator[None]:
        """Raises TrainingError if TensorFlow reports that another worker has ended; `step` returns finished steps."""
        try:
            yield
        except _LOST as error:
            task = _TASK.search(str(error))
            cluster = self._cluster
            # TensorFlow does not always name the lost worker.
            peers = [worker for index, worker in enumerate(cluster.workers) if index != cluster.index]
            lost = cluster.workers[int(task[1])] if task else " or ".join(peers)
            raise TrainingError(
                f"step {step()}: another worker was lost ({lost}). Start all workers again with the same command to "
                "resume from the last checkpoint."
            ) from error

    def own_rows(self, dataset: tf.data.Dataset) -> Any:
        """Returns this worker's rows of a dataset of global batches, in the form that `fit` takes.

        Every worker builds the whole batches, which are functions of seed and step, and keeps its own rows of each. The
        global batch is the same as in a run of one process, in the same order. The replicas of all workers divide its
        rows.
        """

        def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
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

        return self._strategy.distribute_datasets_from_function(of_worker)
