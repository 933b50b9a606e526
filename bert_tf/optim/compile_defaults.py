"""Optimizer, losses and metrics of task models that are trained with `keras.Model.fit`.

Shape legend: B batch (of one replica), S sequence, C classes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.data.schema import END_LOGITS, START_LOGITS
from bert_tf.optim.build import is_decayed, layer_rates
from bert_tf.optim.chance import near_chance, ways_on
from bert_tf.optim.optimizers import AdamW, LossScaleOptimizer
from bert_tf.optim.schedules import LinearWarmupDecay

# Share of the steps in which the learning rate rises.
_WARMUP = 0.1


@keras.saving.register_keras_serializable(package="bert_tf")
class FinetuneAdamW(AdamW):
    """AdamW for `keras.Model.compile`, in which each replica passes the gradient of its own rows.

    Weight decay leaves out biases and layer normalization. Gradients are clipped in each replica, then summed.

    Args:
        layer_decay: factor of the learning rate from one layer to the layer below it, in (0, 1].
        **kwargs: arguments of `AdamW`.
    """

    def __init__(self, *, layer_decay: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**(kwargs | {"rate_scales": None}))
        self.layer_decay = layer_decay

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the moments of `variables`, and selects their learning rates and decay."""
        if self.layer_decay < 1:
            self.rate_scales = tuple(layer_rates(variables, self.layer_decay))
        self.exclude_from_weight_decay(var_list=[variable for variable in variables if not is_decayed(variable)])
        super().build(variables)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return super().get_config() | {"layer_decay": self.layer_decay, "rate_scales": None}

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return keras.optimizers.AdamW._all_reduce_sum_gradients(self, grads_and_vars)


@keras.saving.register_keras_serializable(package="bert_tf")
class WeightedCrossEntropy(keras.losses.Loss):
    """Softmax cross-entropy, averaged over the weights of all targets of all replicas.

    Keras divides by the number of targets, padding included, in each replica.

    Args:
        name: name of the loss.
        **kwargs: arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: integers (...,), or probabilities (..., C).
        y_pred: logits (..., C).
        sample_weight: weights (...,); None weighs all 1.
    """

    def __init__(self, name: str = "weighted_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        """Returns the loss of each target, float32 (...,)."""
        logits = ops.cast(y_pred, "float32")
        y_true = _squeezed(y_true, logits)
        if len(y_true.shape) == len(logits.shape):
            return ops.categorical_crossentropy(ops.cast(y_true, "float32"), logits, from_logits=True)
        return ops.sparse_categorical_crossentropy(ops.cast(y_true, "int32"), logits, from_logits=True)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the weighted mean; 0 if all weights are 0."""
        losses = self.call(ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred))
        weights = ops.ones_like(losses) if sample_weight is None else ops.cast(sample_weight, "float32")
        weights = ops.broadcast_to(weights, ops.shape(losses))
        return ops.divide_no_nan(ops.sum(losses * weights), _mean_over_replicas(ops.sum(weights)))


@keras.saving.register_keras_serializable(package="bert_tf")
class MaskedLMLoss(WeightedCrossEntropy):
    """Loss of the masked language model: the mean over all predictions of the global batch.

    Rows have different numbers of predictions; unused places have weight 0. The loss is the weighted sum divided by the
    weights of all replicas.

    Args:
        name: name of the loss.
        **kwargs: arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: ids of the masked tokens, (B, P) integers.
        y_pred: `mlm_logits`, (B, P, V).
        sample_weight: (B, P), 1 for a prediction, 0 for an unused place.

    Example:
        >>> logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]])
        >>> loss = bert_tf.MaskedLMLoss()(np.array([[0, 0]]), logits, sample_weight=np.array([[1.0, 0.0]]))
        >>> round(float(loss), 4)  # -log(0.5): the second place is unused
        0.6931
    """

    def __init__(self, name: str = "masked_lm_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)


@keras.saving.register_keras_serializable(package="bert_tf")
class Accuracy(keras.metrics.MeanMetricWrapper):
    """Share of targets, integers or probabilities, whose class has the highest logit."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(_hits, name, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}


def schedule(steps: int, learning_rate: float) -> LinearWarmupDecay:
    """Returns the default schedule of a number of steps, with this highest rate."""
    return LinearWarmupDecay(learning_rate, round(_WARMUP * steps), steps)


def optimizer(model: keras.Model, steps: int | None, learning_rate: float, layer_decay: float) -> Any:
    """Returns the default optimizer: AdamW with linear warm-up and decay, clipped to a norm of 1.

    Args:
        model: the model to train; its dtype policy decides about loss scaling.
        steps: number of steps; None for a constant learning rate.
        learning_rate: highest learning rate.
        layer_decay: see `FinetuneAdamW`.
    """
    rate = schedule(steps, learning_rate) if steps else learning_rate
    adamw = FinetuneAdamW(
        learning_rate=rate, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0, layer_decay=layer_decay
    )
    return LossScaleOptimizer(adamw) if model.dtype_policy.name == "mixed_float16" else adamw


def classification() -> dict[str, Any]:
    """Returns loss and metrics of one class for each row."""
    return {"loss": WeightedCrossEntropy(), "metrics": [Accuracy()]}


def regression() -> dict[str, Any]:
    """Returns loss and metrics of one number for each row."""
    return {"loss": "mean_squared_error", "metrics": ["mean_absolute_error"]}


def token_classification() -> dict[str, Any]:
    """Returns loss and metrics of one class for each weighted token."""
    return {"loss": WeightedCrossEntropy(), "weighted_metrics": [Accuracy()]}


def masked_lm() -> dict[str, Any]:
    """Returns loss and metrics of masked tokens."""
    return {"loss": MaskedLMLoss(), "weighted_metrics": [Accuracy()]}


def spans() -> dict[str, Any]:
    """Returns loss and metrics of the first and the last token of an answer."""
    outputs = (START_LOGITS, END_LOGITS)
    return {
        "loss": {name: WeightedCrossEntropy() for name in outputs},
        "loss_weights": dict.fromkeys(outputs, 0.5),
        "weighted_metrics": {name: [Accuracy()] for name in outputs},
    }


def remark_on(
    labels: Any, accuracy: float, steps: int | None, epochs: int, learning_rate: float | None, hidden_dim: int
) -> str:
    """Returns a remark on a training that is not better than the most frequent label, with what to do; otherwise "".

    Args:
        labels: names or numbers of the classes, one for each row, or anything else, on which there is no remark.
        accuracy: accuracy of the last epoch.
        steps: steps of the training; None if they are unknown.
        epochs: epochs of the training.
        learning_rate: highest learning rate of the default optimizer; None for another optimizer.
        hidden_dim: width of the encoder.
    """
    rows = np.asarray(labels)
    if rows.ndim != 1 or rows.dtype.kind not in "iuUSO" or not len(rows):
        return ""
    remark = near_chance(accuracy * len(rows), Counter(rows.tolist()))
    if not remark:
        return ""
    ways = (
        ways_on(steps, epochs, learning_rate, hidden_dim, ("epochs={}", "compile(learning_rate={})")) if steps else []
    )
    return f"{remark}. Next: {', '.join([*ways, 'try another seed (`keras.utils.set_random_seed`)'])}."


def is_correct(targets, logits):
    """Returns 1 for each target (...,) with the highest of its logits (..., C), else 0: float32 (...,).

    Of equal logits, the first counts, as in predictions.
    """
    return ops.cast(ops.equal(ops.cast(targets, "int32"), ops.cast(ops.argmax(logits, axis=-1), "int32")), "float32")


def _squeezed(y_true, y_pred):
    """Returns integers (..., 1) as (...,); other targets unchanged."""
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
        return ops.squeeze(y_true, -1)
    return y_true


def _hits(y_true, y_pred):
    y_true = _squeezed(ops.convert_to_tensor(y_true), y_pred)
    if len(y_true.shape) == len(y_pred.shape):
        y_true = ops.argmax(y_true, axis=-1)
    return is_correct(y_true, y_pred)


def _mean_over_replicas(total):
    """Returns a sum of one replica as its mean over all replicas: Keras averages their losses."""
    if keras.backend.backend() != "tensorflow":
        return total
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return total
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, total)
