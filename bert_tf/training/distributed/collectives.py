"""Decisions that all workers of a run take together: whether to stop, and the step to resume from."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_tf.training.distributed.tf_config import Cluster
from bert_tf.training.distributed.workers import is_one_of_several
from bert_tf.training.loop.checkpoints import TrainingError


def any_worker(strategy: tf.distribute.Strategy) -> Callable[[bool], bool] | None:
    """Returns a function that computes a logical OR over all workers; None for a run of one process.

    All workers must call the function equally often and at the same points.

    Args:
        strategy: the strategy of the run.
    """
    if not is_one_of_several(strategy):
        return None
    gather = _gathering(strategy)
    return lambda vote: any(gather(int(vote)))


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Checks that all workers resume after the same step.

    Args:
        strategy: the strategy of the run.
        step: finished steps of the checkpoint that this worker read.

    Raises:
        TrainingError: if workers read different checkpoints, as happens without a common file system.
    """
    if not is_one_of_several(strategy):
        return
    steps = _gathering(strategy)(step)
    if len(set(steps)) > 1:
        workers = Cluster.from_environment().workers
        each = ", ".join(f"{worker} after step {number}" for worker, number in zip(workers, steps, strict=True))
        raise TrainingError(
            f"all workers must resume after the same step. Received: {each}. Use an output directory that all "
            f"workers share."
        )


def _gathering(strategy: tf.distribute.Strategy) -> Callable[[int], list[int]]:
    """Returns a function from the number of this worker to the numbers of all workers, in their order."""
    workers = len(Cluster.from_environment().workers)

    @tf.function(input_signature=[tf.TensorSpec((), tf.int64)])
    def gather(number):
        def of_replica(value):
            context = tf.distribute.get_replica_context()
            return context.all_gather(value[tf.newaxis], axis=0)

        return strategy.experimental_local_results(strategy.run(of_replica, args=(number,)))[0]

    def numbers(number: int) -> list[int]:
        # One number per replica: those of one worker are adjacent and equal.
        gathered = gather(tf.constant(number, tf.int64)).numpy().tolist()
        return gathered[:: len(gathered) // workers]

    return numbers
