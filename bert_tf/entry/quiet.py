"""Imports TensorFlow without its startup messages and without collecting garbage."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Device files of the NVIDIA driver, and of its driver in Windows Subsystem for Linux.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg")


def import_tensorflow(within: contextlib.AbstractContextManager[Any] | None = None, freeze: bool = True) -> None:
    """Imports TensorFlow if it is installed, and shows its stderr output only if the import fails.

    TensorFlow reports CPU features and missing GPU drivers before it reads any log level. On a machine without a GPU
    the devices are also listed here, because TensorFlow reports an error the first time. On a machine with a GPU,
    errors after the import are not hidden, and a message is printed if TensorFlow finds no GPU. Nothing is hidden if
    `TF_CPP_MIN_LOG_LEVEL` is 0 or 1 in the environment.

    The import runs without garbage collection, and its objects are excluded from later collections, also from those at
    exit, see `without_collecting`. Those collections would take a large part of the time of a short program.

    If Keras uses another backend, all GPUs are hidden from TensorFlow, because that backend needs their memory.

    Args:
        within: context manager entered around the import.
        freeze: False for a process of others, such as a notebook, whose objects stay subject to garbage collection.
    """
    if "tensorflow" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    other_backend = os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow"
    verbose = os.environ.setdefault(_LEVEL, "2") in ("0", "1")
    messages = contextlib.nullcontext() if verbose else _buffer_stderr()
    collecting = without_collecting() if freeze else contextlib.nullcontext()
    with collecting, messages, within or contextlib.nullcontext():
        import tensorflow as tf

        if other_backend:
            tf.config.set_visible_devices([], "GPU")
        elif not has_gpu():
            tf.config.list_physical_devices("GPU")
    if has_gpu() and not other_backend:
        warn_of_unused_gpu(tf)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Disables garbage collection within the block, and excludes all objects that exist at its end from collections.

    It is meant for imports: almost none of their objects is garbage, but every full collection would visit them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def has_gpu() -> bool:
    """Returns True if a GPU driver is loaded."""
    return any(Path(device).exists() for device in _GPU_DEVICES)


def warn_of_unused_gpu(tf: Any) -> None:
    """Prints a message if TensorFlow supports GPUs but finds none on this machine; TensorFlow itself only warns."""
    usable = tf.test.is_built_with_cuda() and "CUDA_VISIBLE_DEVICES" not in os.environ
    if usable and not tf.config.list_physical_devices("GPU"):
        print(
            f"this machine has a GPU, but TensorFlow finds none. Set {_LEVEL}=1 to see the reason, "
            "or CUDA_VISIBLE_DEVICES=-1 to use the CPU.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _buffer_stderr() -> Iterator[None]:
    """Buffers writes to the file descriptor of stderr within the block, and shows them if the block raises."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            yield
        except BaseException:
            notices.seek(0)
            os.write(stderr, notices.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
