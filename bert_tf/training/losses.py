"""What is minimized and measured: weighted cross-entropies, normalized over the batch of all replicas.

Shape legend: B batch (of one replica), P predictions, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from bert_tf.data.schema import MLM_LOGITS, NSP_LOGITS, PADDING_MASK
from bert_tf.training.distribution import sum_over_replicas

# The key under which the output of a model stands that gives one tensor instead of a dictionary.
SINGLE_OUTPUT = ""


@dataclass(frozen=True)
class Objective:
    """The outputs of a model that are trained, each by weighted softmax cross-entropy; the loss is their sum.

    Args:
        outputs: output name to the prefix of its metrics: `mlm` gives `mlm_loss` and `mlm_accuracy`, the
            empty prefix `loss` and `accuracy`.
    """

    outputs: Mapping[str, str]


PRETRAINING = Objective({MLM_LOGITS: "mlm", NSP_LOGITS: "nsp"})
CLASSIFICATION = Objective({SINGLE_OUTPUT: ""})


class TrainingModel(keras.Model):
    """A model with its objective: what `fit` and `evaluate` run.

    It shares the layers of `model` and adds no weights. The loss of one replica is its weighted sum divided
    by the weight of the *global* batch: the gradients of all replicas add up to the gradient of the global
    mean, however unevenly the weights fall. (A mean in each replica, which Keras's own losses take, would
    count a masked token more where its replica has few of them.)

    Args:
        model: gives the logits, a dictionary by output name or one tensor, on any dictionary of inputs that
            holds a padding mask.
        objective: the outputs to train.
    """

    def __init__(self, model: keras.Model, objective: Objective) -> None:
        super().__init__(name="training", dtype="float32")
        self.model = model
        self.objective = objective
        prefixes = {output: f"{prefix}_" if prefix else "" for output, prefix in objective.outputs.items()}
        self.mean_losses = {o: keras.metrics.Mean(name=f"{p}loss") for o, p in prefixes.items()}
        self.accuracies = {o: keras.metrics.Mean(name=f"{p}accuracy") for o, p in prefixes.items()}
        self.tokens = keras.metrics.Sum(name="tokens")
        self.built = True

    def call(self, inputs, training=None):
        """Returns the model's outputs."""
        return self.model(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Returns this replica's share of the global loss and updates the metrics.

        Args:
            x: dictionary of inputs; the padding mask (B, S) counts the tokens.
            y: integer targets, by output name or one tensor: (B, P) for (B, P, V) logits, (B,) for (B, C).
            y_pred: logits, in the same structure.
            sample_weight: float weights of the targets' shapes, in the same structure; None weighs all 1.
            training: not read; the loss is the same.

        Returns:
            Scalar float32.
        """
        targets, logits, weights = (_by_output(value) for value in (y, y_pred, sample_weight))
        sums, totals = [], []
        for output in self.objective.outputs:
            losses = cross_entropy(targets[output], logits[output])
            weight = ops.ones_like(losses) if output not in weights else weights[output]
            weight = ops.cast(weight, "float32")
            sums.append(ops.sum(losses * weight))
            totals.append(ops.sum(weight))
            self.mean_losses[output].update_state(_flat(losses), _flat(weight))
            hits = is_correct(targets[output], logits[output])
            self.accuracies[output].update_state(_flat(hits), _flat(weight))
        self.tokens.update_state(ops.cast(x[PADDING_MASK], "float32"))
        shares = [ops.divide_no_nan(s, t) for s, t in zip(sums, sum_over_replicas(totals), strict=True)]
        return ops.sum(ops.stack(shares))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the running loss alone: each further number would be fetched from the device every step."""
        return {"loss": self._loss_tracker.result()}

    def results(self) -> dict[str, float]:
        """Returns losses and accuracies since the last reset, over all replicas.

        Returns:
            `loss`, the sum of the outputs' losses, and `<prefix>_loss`, `<prefix>_accuracy` of each.
        """
        losses = {metric.name: float(metric.result()) for metric in self.mean_losses.values()}
        accuracies = {metric.name: float(metric.result()) for metric in self.accuracies.values()}
        return {"loss": sum(losses.values())} | losses | accuracies


def cross_entropy(targets, logits):
    """Softmax cross-entropy in float32.

    Args:
        targets: (...,) integers in [0, C).
        logits: (..., C) of any float dtype.

    Returns:
        (...,) float32, in nats.
    """
    return ops.sparse_categorical_crossentropy(targets, ops.cast(logits, "float32"), from_logits=True)


def is_correct(targets, logits):
    """Tells where the target has the highest logit (a tie counts), as float32 0 or 1.

    Args:
        targets: (...,) integers in [0, C).
        logits: (..., C).

    Returns:
        (...,) float32.
    """
    chosen = ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)
    return ops.cast(ops.squeeze(chosen, -1) >= ops.max(logits, axis=-1), "float32")


def _by_output(structure: Any) -> Mapping[str, Any]:
    if structure is None:
        return {}
    return structure if isinstance(structure, Mapping) else {SINGLE_OUTPUT: structure}


def _flat(values):
    return ops.reshape(values, (-1,))
