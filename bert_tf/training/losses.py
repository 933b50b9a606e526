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
        self.positions = keras.metrics.Sum(name="positions")
        self.gradient_norm = keras.metrics.Mean(name="gradient_norm")
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
        sums = self.weighted_sums(y, y_pred, sample_weight)
        self.note(x, sums)
        return self.share_of(sums, self.total_weights(y, sample_weight))

    def weighted_sums(self, y, y_pred, sample_weight):
        """Returns for each output, float32 (3,), the sums of weighted losses, of weighted hits and of weights."""
        targets, logits, weights = (_by_output(value) for value in (y, y_pred, sample_weight))
        sums = {}
        for output in self.objective.outputs:
            losses = cross_entropy(targets[output], logits[output])
            hits = is_correct(targets[output], logits[output])
            weight = _weight_of(output, targets, weights)
            sums[output] = ops.stack([ops.sum(losses * weight), ops.sum(hits * weight), ops.sum(weight)])
        return sums

    def total_weights(self, y, sample_weight):
        """Returns the sum of the weights of each output over all replicas: scalars by output name."""
        targets, weights = _by_output(y), _by_output(sample_weight)
        outputs = list(self.objective.outputs)
        totals = [ops.sum(_weight_of(output, targets, weights)) for output in outputs]
        return dict(zip(outputs, sum_over_replicas(totals), strict=True))

    def share_of(self, sums, totals):
        """Returns what rows of these `sums` add to the loss of a batch of these `totals`: scalar float32."""
        return ops.sum(ops.stack([ops.divide_no_nan(sums[output][0], totals[output]) for output in totals]))

    def note(self, x, sums) -> None:
        """Counts rows of these inputs and `sums` in the metrics."""
        for output, (loss, hits, weight) in ((output, ops.unstack(total)) for output, total in sums.items()):
            self.mean_losses[output].update_state(ops.divide_no_nan(loss, weight), weight)
            self.accuracies[output].update_state(ops.divide_no_nan(hits, weight), weight)
        mask = ops.cast(x[PADDING_MASK], "float32")
        self.tokens.update_state(mask)
        self.positions.update_state(ops.ones_like(mask))

    def note_gradients(self, gradients):
        """Counts and returns the norm of a step's gradients, which are scaled as the loss is and not clipped yet."""
        norm = ops.sqrt(ops.sum(ops.stack([ops.sum(ops.square(gradient)) for gradient in gradients])))
        norm = norm / self.optimizer.scale_loss(1.0)
        self.gradient_norm.update_state(norm)
        return norm

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Returns the running loss alone: each further number would be fetched from the device every step."""
        return {"loss": self._loss_tracker.result()}

    def results(self) -> dict[str, float]:
        """Returns losses and accuracies since the last reset, over all replicas.

        Returns:
            `loss`, the sum of the outputs' losses, and `<prefix>_loss`, `<prefix>_accuracy` of each; of one whose
            targets all weighed nothing, as those of a next sentence where there are no pairs, there are none.
        """
        metrics = [*self.mean_losses.values(), *self.accuracies.values()]
        figures = {metric.name: float(metric.result()) for metric in metrics if ops.greater(metric.count, 0)}
        return {"loss": sum(figures.get(metric.name, 0.0) for metric in self.mean_losses.values())} | figures


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


def _weight_of(output: str, targets: Mapping[str, Any], weights: Mapping[str, Any]):
    """Returns the float32 weights of the targets of one output, 1 each where none are given."""
    if output not in weights:
        return ops.ones_like(targets[output], dtype="float32")
    return ops.cast(weights[output], "float32")
