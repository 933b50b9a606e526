"""Import of TensorFlow without its start-up messages, and the check of the Keras backend."""

from __future__ import annotations

import os

from bert_tf.config import ConfigError
from bert_tf.entry import quiet
from bert_tf.export.runtime import prefer_onednn, without_keras


def import_tensorflow(*, keras: bool = True) -> None:
    """Imports TensorFlow if it is installed, see `entry.quiet`.

    Args:
        keras: True to import Keras too; False for serving, which prefers oneDNN.
    """
    if keras:
        quiet.import_tensorflow()
    else:
        prefer_onednn()
        quiet.import_tensorflow(without_keras())


def check_keras_backend() -> None:
    """Raises ConfigError if the environment selects a Keras backend that is not supported."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in ("tensorflow", "jax"):
        raise ConfigError(
            f"KERAS_BACKEND must be tensorflow or jax. Received: {backend!r}. Run `unset KERAS_BACKEND`, or "
            "`export KERAS_BACKEND=jax` after `pip install 'bert-tf[jax]'`."
        )
