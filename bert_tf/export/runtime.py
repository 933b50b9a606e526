"""What runs an exported model, fast and nothing more: TensorFlow, and the operations of tensorflow-text.

TensorFlow imports Keras and JAX where they are installed, for Keras's SavedModels and for its converter to TF Lite, and
tensorflow-text's Python package builds Keras layers. A served graph needs none of them; without them a server starts
seconds earlier and takes less memory.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# TensorFlow goes on without those of them that cannot be imported.
_NOT_NEEDED = ("keras", "jax")
_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_SYSTEM_ALLOCATOR = "TF_ONEDNN_USE_SYSTEM_ALLOCATOR"
_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


def prefer_onednn() -> None:
    """Has TensorFlow compute with oneDNN when it is imported afterwards, unless the environment decides otherwise.

    By itself it does so only on processors with instructions for neural networks (AVX512-VNNI and later); with exported
    kernels, laid out as `layers.inference` says, it is faster on others, too.
    """
    os.environ.setdefault(_ONEDNN, "1")


def use_system_allocator() -> None:
    """Lets TensorFlow allocate large buffers by malloc when it is imported afterwards, unless the environment decides.

    With oneDNN it otherwise keeps them in a pool that doubles when a buffer does not fit and never shrinks. A server
    that loads a version beside another one then keeps the memory of both.
    """
    os.environ.setdefault(_SYSTEM_ALLOCATOR, "1")


def keep_packed_weights() -> None:
    """Has oneDNN keep kernels as it multiplies by them, in models that are loaded afterwards.

    Otherwise it packs them for every request. Each signature that was used has its own packed kernels, in memory beside
    the model's. In bfloat16 requests take less time, all lengths of them; in float32 they take more, because the packed
    form that suits one number of rows is packed again for another. Only for processes that serve: a weight that changes
    after its first use would go unnoticed.
    """
    os.environ.setdefault(_FROZEN, "1")


@contextlib.contextmanager
def without_keras() -> Iterator[None]:
    """Lets TensorFlow be imported by a block without Keras and JAX; what is imported already stays.

    Both can be imported afterwards as always.
    """
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    # What sys.modules has as None raises ModuleNotFoundError.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def without_gradient_warnings() -> Iterator[None]:
    """Keeps TensorFlow from warning that a loaded export holds no gradients: nobody takes one of a served model."""
    logger = logging.getLogger("absl")

    # A filter of this block only: several threads may load models at once, and a level is common to all.
    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger.addFilter(is_error)
    try:
        yield
    finally:
        logger.removeFilter(is_error)


def register_text_operations() -> None:
    """Makes tensorflow-text's operations known to TensorFlow, without its Python package.

    Raises:
        ModuleNotFoundError: where tensorflow-text is not installed.
    """
    import tensorflow as tf

    spec = importlib.util.find_spec("tensorflow_text")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("tensorflow_text is not installed", name="tensorflow_text")
    for library in sorted(Path(spec.submodule_search_locations[0], "python", "ops").glob("*.so")):
        tf.load_op_library(str(library))
