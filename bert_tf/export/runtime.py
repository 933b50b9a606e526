"""Minimal runtime of an exported model: TensorFlow and the operations of tensorflow-text.

TensorFlow imports Keras and JAX if they are installed, for Keras SavedModels and for its converter to TF Lite, and
tensorflow-text's Python package builds Keras layers. A served graph needs neither; without them a server starts
seconds earlier and uses less memory.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# TensorFlow works without these packages if they cannot be imported.
_NOT_NEEDED = ("keras", "jax")


def prefer_onednn() -> None:
    """Enables oneDNN for a later import of TensorFlow, unless the environment sets it otherwise.

    TensorFlow enables oneDNN by default only on processors with AVX512-VNNI or later. With exported kernels, laid out
    as described in `layers.inference`, oneDNN is faster on other processors too.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def use_system_allocator() -> None:
    """Lets TensorFlow allocate large buffers by malloc when it is imported afterwards, unless the environment decides.

    With oneDNN it otherwise keeps them in a pool that doubles when a buffer does not fit and never shrinks. A server
    that loads a version beside another one then keeps the memory of both.
    """
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")


def keep_packed_weights() -> None:
    """Lets oneDNN cache packed kernels in models that are loaded afterwards.

    By default oneDNN packs kernels for each request. Each signature in use caches its own packed kernels, in addition
    to those of the model. In bfloat16, requests of all lengths are faster; in float32 they are slower, because kernels
    packed for one number of rows are packed again for another. Only for serving processes: a weight that changes after
    its first use is ignored.
    """
    os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")


@contextlib.contextmanager
def without_keras() -> Iterator[None]:
    """Hides Keras and JAX from an import of TensorFlow within the block, unless they are imported already."""
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    # Importing a module that is None in sys.modules raises ModuleNotFoundError.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def without_gradient_warnings() -> Iterator[None]:
    """Suppresses TensorFlow's warning that a loaded export has no gradients, which a served model does not need."""
    logger = logging.getLogger("absl")

    # A filter instead of a level: several threads may load models at once, and they share the level.
    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger.addFilter(is_error)
    try:
        yield
    finally:
        logger.removeFilter(is_error)


def register_text_operations() -> None:
    """Registers the operations of tensorflow-text, which must be installed, without importing its Python package."""
    import tensorflow as tf

    spec = importlib.util.find_spec("tensorflow_text")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("tensorflow_text is not installed", name="tensorflow_text")
    for library in sorted(Path(spec.submodule_search_locations[0], "python", "ops").glob("*.so")):
        tf.load_op_library(str(library))
