"""Evaluations on held-out data, those in the course of a run with what is shown beside their figures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from bert_tf.data.input.batches import Dataset
from bert_tf.data.schema import MASK_POSITIONS
from bert_tf.training.backends import Model, current_backend
from bert_tf.training.evaluation.context import Evaluation, EvaluationContext
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.losses import PRETRAINING, Objective, TrainingModel
from bert_tf.training.optim.build import averaged_weights


def evaluator(
    training: TrainingModel,
    model: keras.Model,
    validation: Callable[[int], Any] | None,
    preemption: PreemptionHandler,
    evaluation_context: EvaluationContext | None,
) -> Callable[[int], Evaluation] | None:
    """Returns what evaluates after the training batch of a number, None where there is nothing to evaluate on.

    Args:
        training: the model being trained, compiled; moving averages of its weights are evaluated where it keeps them.
        model: of the same weights, for examples that are not packed.
        validation: gives the held-out batches that fit the training batch of a number.
        interruption: what an evaluation gives way to.
        sights: what to show beside the figures; None shows nothing.
    """
    if validation is None:
        return None
    make = validation

    def evaluation(batch: int) -> Evaluation:
        dataset = make(batch)
        with averaged_weights(training.optimizer, training.trainable_variables):
            figures = evaluate(training, dataset, preemption)
            if evaluation_context is None:
                return Evaluation(figures)
            return evaluation_context.of(model, batch, figures, lambda: bool(preemption))

    return evaluation


def measuring(
    training: TrainingModel, model: Model, measure: Callable[[Model, int], Mapping[str, float]]
) -> Callable[[int], Evaluation]:
    """Returns what measures after the training batch of a number, with moving averages of the weights if there are any.

    Args:
        training: the model being trained, compiled.
        model: its model, as a function of numpy arrays.
        measure: gives the figures of the model after a number of steps.
    """

    def evaluation(batch: int) -> Evaluation:
        with averaged_weights(training.optimizer, training.trainable_variables):
            return Evaluation(dict(measure(model, batch + 1)))

    return evaluation


def early_stopping(history: Sequence[Mapping[str, float]], metric: str, patience: int) -> bool:
    """Tells whether the last `patience` evaluations, if that is not 0, were no better than the best one before."""
    if not 0 < patience < len(history):
        return False
    values = [figures[metric] for figures in history]
    return max(values[-patience:]) <= max(values[:-patience])


def evaluate(training: TrainingModel, dataset: Any, preemption: PreemptionHandler) -> dict[str, float]:
    """Returns the figures on a dataset that ends, or on the first part of it where it is interrupted."""

    def give_way(batch: int, logs: Any) -> None:
        preemption.ask()
        training.stop_evaluating = bool(preemption)

    watch = keras.callbacks.LambdaCallback(on_test_batch_end=give_way)
    with warnings.catch_warnings():
        # Keras takes the end of data of unknown size for an accident.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        training.evaluate(dataset, verbose=0, callbacks=[watch])
    results = training.results()
    if "mlm_loss" in results:
        results["mlm_perplexity"] = math.exp(min(results["mlm_loss"], 700.0))
    return results


def evaluate_pretraining(model: keras.Model, dataset: Dataset) -> dict[str, float]:
    """Evaluates a pre-trained model.

    Args:
        model: gives `mlm_logits`, `nsp_logits` or both.
        dataset: batches (inputs, targets, weights), ending.

    Returns:
        `loss`, `mlm_loss` (nats), `mlm_accuracy`, `mlm_perplexity`, `nsp_loss`, `nsp_accuracy`: weighted
        means over all batches, of the outputs that there are.
    """
    backend = current_backend()
    training = backend.training_model(*_as_far_as_it_goes(model))
    training.compile()
    return evaluate(training, backend.batches(dataset), PreemptionHandler())


def _as_far_as_it_goes(model: keras.Model) -> tuple[keras.Model, Objective]:
    """Returns a pre-trained model as one of all inputs of pre-training, and the objective of the heads it has."""
    outputs = {output: prefix for output, prefix in PRETRAINING.outputs.items() if output in model.output}
    if MASK_POSITIONS not in model.input:
        # Keras tells inputs apart by their order: without a place of its own this one would take another's.
        unread = keras.Input(shape=(None,), dtype="int32", name=MASK_POSITIONS)
        model = keras.Model({**model.input, MASK_POSITIONS: unread}, model.output)
    return model, Objective(outputs)
