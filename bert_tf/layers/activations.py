"""The one place where an activation's name becomes a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.config import ConfigError
from bert_tf.config.model import ACTIVATIONS


@keras.saving.register_keras_serializable(package="bert_tf")
def gelu_approximate(inputs: Any) -> Any:
    """Gaussian error linear unit in its tanh form, the one the published weights were trained with.

    Args:
        inputs: float tensor of any shape.

    Returns:
        A tensor of the same shape and dtype.
    """
    return ops.gelu(inputs, approximate=True)


def activation_function(name: str) -> Callable[[Any], Any]:
    """Returns the function that `BertConfig.activation` names.

    Args:
        name: one of `bert_tf.config.model.ACTIVATIONS`; `gelu` is the exact form, with erf.

    Returns:
        A function from tensor to tensor which Keras can serialize.

    Raises:
        ConfigError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ConfigError(f"`activation` must be one of {ACTIVATIONS}. Received: {name!r}")
    return gelu_approximate if name == "gelu_approximate" else keras.activations.get(name)
