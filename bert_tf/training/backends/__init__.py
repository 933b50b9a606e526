"""Train steps for the TensorFlow and JAX backends of Keras."""

from __future__ import annotations

import keras

from bert_tf.config import ConfigError
from bert_tf.training.backends.base import Backend, precision_scope

__all__ = ["Backend", "current_backend", "precision_scope"]


def current_backend() -> Backend:
    """Returns the training backend for the current Keras backend. Raises ConfigError if it is not supported."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from bert_tf.training.backends.tensorflow import TensorFlowBackend

        return TensorFlowBackend()
    if backend == "jax":
        from bert_tf.training.backends.jax import JaxBackend

        return JaxBackend()
    raise ConfigError(f"training runs on the Keras backends tensorflow and jax. Received: {backend}")
