"""Activation functions by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.config.model import ACTIVATIONS

# Coefficients of 2 z in `_gelu`.
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


@keras.saving.register_keras_serializable(package="bert_tf")
def gelu_approximate(inputs: Any) -> Any:
    """Computes the Gaussian error linear unit in its tanh form, as used to train the published weights."""
    return _gelu(inputs)


@ops.custom_gradient
def _gelu(inputs):
    """Returns x * sigmoid(2 z), z = sqrt(2 / pi) * (x + 0.044715 x^3), which is x * (1 + tanh(z)) / 2.

    The gradient is hand-written, because automatic differentiation needs more passes over the widest tensor of the
    model.
    """
    gate = ops.sigmoid(inputs * (_LINEAR + _CUBIC * ops.square(inputs)))
    outputs = inputs * gate

    def gradient(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        slope = _LINEAR + 3 * _CUBIC * ops.square(inputs)
        return upstream * (gate + outputs * (1 - gate) * slope)

    return outputs, gradient


def activation_function(name: str) -> Callable[[Any], Any]:
    """Returns the function, which Keras can serialize, of a `BertConfig.activation`; `gelu` is the form with erf."""
    if name not in ACTIVATIONS:
        raise ConfigError(f"`activation` must be one of {ACTIVATIONS}. Received: {name!r}")
    return gelu_approximate if name == "gelu_approximate" else keras.activations.get(name)
