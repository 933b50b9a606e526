"""What several processes of one run must decide alike: whether to stop, and where to go on."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_tf.training.distributed.tf_config import Cluster
from bert_tf.training.distributed.workers import is_one_of_several
from bert_tf.training.loop.checkpoints import TrainingError


def any_worker(strategy: tf.distribute.Strategy) -> Callable[[bool], bool] | None:
    """Returns what tells each process of a run whether any of them says yes; `None` for a run of one process.

    All of them must call it equally often, at the same moments.

    Args:
        strategy: of the run.
    """
    if not is_one_of_several(strategy):
        return None
    gathered = _gathering(strategy)
    return lambda mine: any(gathered(int(mine)))


def check_same_step(strategy: tf.distribute.Strategy, step: int) -> None:
    """Makes sure that all processes of a run go on after the same step.

    Args:
        strategy: of the run.
        step: finished steps of the checkpoint that this process read.

    Raises:
        TrainingError: where they read different checkpoints, as without a common file system.
    """
    if not is_one_of_several(strategy):
        return
    steps = _gathering(strategy)(step)
    if len(set(steps)) > 1:
        workers = Cluster.from_environment().workers
        each = ", ".join(f"{worker} after step {number}" for worker, number in zip(workers, steps, strict=True))
        raise TrainingError(
            f"the workers would go on after different steps: {each}. The output directory must be one that all of "
            f"them share."
        )


def _gathering(strategy: tf.distribute.Strategy) -> Callable[[int], list[int]]:
    """Returns what gives the numbers of all processes, in their order, for the number of this one."""
    workers = len(Cluster.from_environment().workers)

    @tf.function(input_signature=[tf.TensorSpec((), tf.int64)])
    def gather(number):
        def of_replica(own):
            context = tf.distribute.get_replica_context()
            return context.all_gather(own[tf.newaxis], axis=0)

        return strategy.experimental_local_results(strategy.run(of_replica, args=(number,)))[0]

    def numbers(number: int) -> list[int]:
        # One for each replica: those of one worker stand together and are equal.
        everyone = gather(tf.constant(number, tf.int64)).numpy().tolist()
        return everyone[:: len(everyone) // workers]

    return numbers
