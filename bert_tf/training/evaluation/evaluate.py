"""Evaluation on held-out data, during a run or of a preset."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from bert_tf.config.training import OBJECTIVES
from bert_tf.data.input.dataset import Dataset
from bert_tf.data.schema import MASK_POSITIONS
from bert_tf.training.backends import current_backend
from bert_tf.training.loop.preemption import PreemptionHandler
from bert_tf.training.losses import Objective, TrainingModel, pretraining_objective


def early_stopping(history: Sequence[Mapping[str, float]], metric: str, patience: int) -> bool:
    """Returns True if the last `patience` evaluations, unless 0, are no better than the best one before."""
    if not 0 < patience < len(history):
        return False
    values = [metrics[metric] for metrics in history]
    return max(values[-patience:]) <= max(values[:-patience])


def evaluate(training: TrainingModel, dataset: Any, preemption: PreemptionHandler) -> dict[str, float]:
    """Returns the metrics on a finite dataset, or on the first part of it after a signal."""

    def stop_on_signal(batch: int, logs: Any) -> None:
        preemption.ask()
        training.stop_evaluating = bool(preemption)

    preemption.ask(now=True)
    watch = keras.callbacks.LambdaCallback(on_test_batch_end=stop_on_signal)
    with warnings.catch_warnings():
        # Keras warns at the end of a dataset of unknown size.
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        training.evaluate(dataset, verbose=0, callbacks=[watch])
    preemption.ask(now=True)
    results = training.results()
    for name in OBJECTIVES:
        if f"{name}_loss" in results:
            results[f"{name}_perplexity"] = math.exp(min(results[f"{name}_loss"], 700.0))
    return results


def evaluate_pretraining(model: keras.Model, dataset: Dataset, objective: str = "mlm") -> dict[str, float]:
    """Evaluates a pre-trained model.

    Args:
        model: returns `mlm_logits`, `nsp_logits` or both.
        dataset: finite batches (inputs, targets, weights).
        objective: language model of these batches, `mlm` or `causal_lm` (see `pretraining_dataset`).

    Returns:
        `loss`, `mlm_loss` (nats), `mlm_accuracy`, `mlm_perplexity`, `nsp_loss`, `nsp_accuracy`: weighted means over all
        batches, for the outputs that the model has. For `causal_lm` the names begin with `causal_lm` instead of `mlm`.

    Example:
        >>> model = bert_tf.load_preset("runs/laptop").model
        >>> dataset = bert_tf.pretraining_dataset("data", "validation", batch_size=4, seed=1, training=False)
        >>> metrics = bert_tf.evaluate_pretraining(model, dataset)
        >>> sorted(metrics)
        ['loss', 'mlm_accuracy', 'mlm_loss', 'mlm_perplexity', 'nsp_accuracy', 'nsp_loss']
    """
    backend = current_backend()
    training = backend.training_model(*_with_all_inputs(model, objective))
    training.compile()
    return evaluate(training, backend.batches(dataset), PreemptionHandler())


def _with_all_inputs(model: keras.Model, objective: str) -> tuple[keras.Model, Objective]:
    """Returns a pre-trained model with all inputs of pre-training, and the objective of the heads it has."""
    heads = pretraining_objective(objective).outputs
    outputs = {output: prefix for output, prefix in heads.items() if output in model.output}
    if MASK_POSITIONS not in model.input:
        # Keras identifies inputs by their order: without this unused input the others would be mixed up.
        unused = keras.Input(shape=(None,), dtype="int32", name=MASK_POSITIONS)
        model = keras.Model({**model.input, MASK_POSITIONS: unused}, model.output)
    return model, Objective(outputs)
