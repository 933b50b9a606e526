"""Objectives, losses and metrics: weighted losses, normalized over the batch of all replicas.

Shape legend: B batch (of one replica), S sequence, P predictions, V vocabulary, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import ops

from bert_tf.data.schema import END_LOGITS, MLM_LOGITS, NSP_LOGITS, PADDING_MASK, SINGLE_OUTPUT, START_LOGITS
from bert_tf.layers.pooling import without_padding
from bert_tf.optim.compile_defaults import is_correct
from bert_tf.optim.optimizers import global_norm
from bert_tf.training.loop.compiled_shapes import CompiledShapes


@dataclass(frozen=True)
class Objective:
    """The trained outputs of a model, each with a weighted loss.

    Args:
        outputs: output names to the prefixes of their metrics: `mlm` means `mlm_loss` and `mlm_accuracy`, the empty
            prefix `loss` and `accuracy`.
        squared_error: True for regression: each output is one number, (B, 1), with a target (B,), and has no accuracy.
            False for softmax cross-entropy over classes.
        over_tokens: True if the classes of each output are the positions of a row, (B, S), without padding.
        mean: True if the loss is the mean of the outputs' losses, False for their sum.
        factors: factors of the outputs' losses in the loss, by output name; 1 for others.
    """

    outputs: Mapping[str, str]
    squared_error: bool = False
    over_tokens: bool = False
    mean: bool = False
    factors: Mapping[str, float] = field(default_factory=dict)

    def factor_of(self, output: str) -> float:
        """Returns the factor of an output's loss in the loss."""
        return self.factors.get(output, 1.0) / (len(self.outputs) if self.mean else 1)


def pretraining_objective(language_model: str = "mlm", nsp_weight: float = 1.0) -> Objective:
    """Returns the objective of pre-training.

    Args:
        language_model: `mlm` or `causal_lm`. Both train `mlm_logits`; the name is the prefix of the metrics.
        nsp_weight: factor of the loss of next sentence prediction; 0 leaves it out.
    """
    if not nsp_weight:
        return Objective({MLM_LOGITS: language_model})
    return Objective({MLM_LOGITS: language_model, NSP_LOGITS: "nsp"}, factors={NSP_LOGITS: nsp_weight})


PRETRAINING = pretraining_objective()
CLASSIFICATION = Objective({SINGLE_OUTPUT: ""})
REGRESSION = Objective({SINGLE_OUTPUT: ""}, squared_error=True)
# The mean of both cross-entropies, as in the original's run_squad.py.
SPANS = Objective({START_LOGITS: "start", END_LOGITS: "end"}, over_tokens=True, mean=True)


class TrainingModel(keras.Model):
    """A model with its objective, for `fit` and `evaluate`.

    It shares the layers of `model` and adds no weights. The model returns the logits, a dictionary by output name or
    one tensor, for any dictionary of inputs that holds a padding mask. The loss of one replica is its weighted sum
    divided by the weight of the *global* batch: the gradients of all replicas add up to the gradient of the global
    mean, however the weights are distributed. (Keras's own losses take a mean in each replica, which counts a masked
    token more in a replica with few of them.) Each step is computed in `parts`, whose number must divide the rows of
    one replica. With `use_xla`, XLA compiles the forward and backward pass; JAX always does.

    A step returns nothing that the host would have to wait for. Losses and the number of finite steps are metrics on
    the devices, which the host reads between some steps. `input_wait` has the seconds in which steps waited for data.
    """

    def __init__(self, model: keras.Model, objective: Objective, parts: int = 1, use_xla: bool = False) -> None:
        super().__init__(name="training", dtype="float32")
        self.model = model
        self.objective = objective
        self.parts = parts
        self.use_xla = use_xla
        self._train_step_function: Callable[..., Any] | None = None
        self._test_step_function: Callable[..., Any] | None = None
        prefixes = {output: f"{prefix}_" if prefix else "" for output, prefix in objective.outputs.items()}
        self.mean_losses = {o: keras.metrics.Mean(name=f"{p}loss") for o, p in prefixes.items()}
        self.accuracies = {
            o: keras.metrics.Mean(name=f"{p}accuracy") for o, p in prefixes.items() if not objective.squared_error
        }
        self.tokens = keras.metrics.Sum(name="tokens")
        self.positions = keras.metrics.Sum(name="positions")
        self.gradient_norm = keras.metrics.Mean(name="gradient_norm")
        self.finite = keras.metrics.Mean(name="finite")
        self.input_wait = 0.0
        self.compiled_shapes = CompiledShapes()
        self.built = True

    def compiled_train_step(self) -> Callable[..., Any]:
        """Returns the function that `fit` calls once per step; its logs are empty."""
        raise NotImplementedError

    def compiled_test_step(self) -> Callable[..., Any]:
        """Returns the function that `evaluate` calls once per batch; it updates the metrics."""
        raise NotImplementedError

    def make_train_function(self, force: bool = False) -> None:
        """Builds the function of `compiled_train_step` once, or again with `force`."""
        if force or self._train_step_function is None:
            self._train_step_function = self.compiled_train_step()
        self.train_function = self._train_step_function

    def make_test_function(self, force: bool = False) -> None:
        """Builds the function of `compiled_test_step` once, or again with `force`."""
        if force or self._test_step_function is None:
            self._test_step_function = self.compiled_test_step()
        self.test_function = self._test_step_function

    def over_replicas(self, tensors):
        """Returns each dense tensor of one replica, summed over all replicas."""
        return tensors

    def synchronize(self) -> None:
        """Copies the state of the last step into the variables, if a backend keeps it elsewhere during `fit`."""

    def wait(self) -> None:
        """Waits until the devices have finished the last step."""
        self.synchronize()
        ops.convert_to_numpy(self.finite.count)

    def call(self, inputs, training=None):
        """Returns the model's outputs; for classes over tokens, the logits of padding are lowered."""
        outputs = self.model(inputs, training=training)
        if not self.objective.over_tokens:
            return outputs
        return {name: without_padding(outputs[name], inputs[PADDING_MASK]) for name in self.objective.outputs}

    def weighted_sums(self, y, y_pred, sample_weight):
        """Returns the sums of weighted losses, weighted hits and weights: float32 (3,) by output name."""
        targets, logits, weights = (_by_output(value) for value in (y, y_pred, sample_weight))
        sums = {}
        for output in self.objective.outputs:
            if self.objective.squared_error:
                losses = squared_error(targets[output], logits[output])
                hits = ops.zeros_like(losses)
            else:
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
        return dict(zip(outputs, self.over_replicas(totals), strict=True))

    def share_of(self, sums, totals):
        """Returns the share of rows with these `sums` in the loss of a batch with these `totals`: scalar float32."""
        factor = self.objective.factor_of
        losses = [ops.divide_no_nan(sums[output][0], totals[output]) * factor(output) for output in totals]
        return ops.sum(ops.stack(losses))

    def note(self, x, sums) -> None:
        """Updates the metrics with rows of these inputs and `sums`."""
        for output, (loss, hits, weight) in ((output, ops.unstack(total)) for output, total in sums.items()):
            self.mean_losses[output].update_state(ops.divide_no_nan(loss, weight), weight)
            if output in self.accuracies:
                self.accuracies[output].update_state(ops.divide_no_nan(hits, weight), weight)
        mask = ops.cast(x[PADDING_MASK], "float32")
        self.tokens.update_state(mask)
        self.positions.update_state(ops.ones_like(mask))

    def note_gradients(self, gradients):
        """Records and returns the norm of a step's gradients, which are scaled as the loss is and not clipped yet."""
        norm = global_norm(gradients) / self.optimizer.scale_loss(1.0)
        self.gradient_norm.update_state(norm)
        return norm

    def note_finite(self, loss, norm) -> None:
        """Records whether the loss of the global batch and the norm of its gradients are finite.

        With loss scaling, gradients may overflow; the optimizer then skips the step and lowers the scale.
        """
        is_finite = ops.isfinite(loss)
        if not isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            is_finite = ops.logical_and(is_finite, ops.isfinite(norm))
        # Later steps start from weights that are not finite and do not count.
        so_far = ops.equal(self.finite.total, self.finite.count)
        self.finite.update_state(ops.cast(ops.logical_and(so_far, is_finite), "float32"))

    def finite_steps(self, steps: int) -> int:
        """Returns the number of steps before the first one that is not finite, of `steps` since the last reset."""
        return round(float(self.finite.result()) * steps)

    def results(self) -> dict[str, float]:
        """Returns the losses and accuracies since the last reset, over all replicas, of outputs with any weight."""
        metrics = [*self.mean_losses.values(), *self.accuracies.values()]
        values = {metric.name: float(metric.result()) for metric in metrics if ops.greater(metric.count, 0)}
        factor = self.objective.factor_of
        loss = sum(values.get(metric.name, 0.0) * factor(output) for output, metric in self.mean_losses.items())
        return {"loss": loss} | values


def cross_entropy(targets, logits):
    """Returns the softmax cross-entropy, float32 (...,) in nats, of integer targets (...,) and logits (..., C)."""
    return ops.sparse_categorical_crossentropy(targets, ops.cast(logits, "float32"), from_logits=True)


def squared_error(targets, values):
    """Returns the squared differences, float32 (...,), of targets (...,) and values (..., 1)."""
    return ops.square(ops.cast(values[..., 0], "float32") - ops.cast(targets, "float32"))


def _by_output(structure: Any) -> Mapping[str, Any]:
    if structure is None:
        return {}
    return structure if isinstance(structure, Mapping) else {SINGLE_OUTPUT: structure}


def _weight_of(output: str, targets: Mapping[str, Any], weights: Mapping[str, Any]):
    """Returns the float32 weights of the targets of one output; 1 for each if there are none."""
    if output not in weights:
        return ops.ones_like(targets[output], dtype="float32")
    return ops.cast(weights[output], "float32")
