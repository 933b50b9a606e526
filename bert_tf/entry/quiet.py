"""TensorFlow without the notices that it prints while it starts."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Those of NVIDIA's driver, and of its driver within Windows' subsystem for Linux.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg")


def import_tensorflow(within: contextlib.AbstractContextManager[Any] | None = None) -> None:
    """Imports TensorFlow where it is installed; what it writes to stderr meanwhile is shown only if the import fails.

    TensorFlow writes of CPU features and of GPU drivers that it does not find before it reads any log level. On a
    machine without a GPU it is also asked for GPUs here, since it writes an error at the first such question. On a
    machine with a GPU no error after the import is hidden, and a line says so where TensorFlow finds no GPU. Nothing
    at all is hidden where the environment sets `TF_CPP_MIN_LOG_LEVEL` to 0 or 1.

    Where Keras has another backend, which needs the GPUs' memory, TensorFlow is shown none of them.

    Args:
        within: what surrounds the import.
    """
    if "tensorflow" in sys.modules or importlib.util.find_spec("tensorflow") is None:
        return
    other_backend = os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow"
    verbose = os.environ.setdefault(_LEVEL, "2") in ("0", "1")
    with contextlib.nullcontext() if verbose else _stderr_kept(), within or contextlib.nullcontext():
        import tensorflow as tf

        if other_backend:
            tf.config.set_visible_devices([], "GPU")
        elif not has_gpu():
            tf.config.list_physical_devices("GPU")
    if has_gpu() and not other_backend:
        warn_of_unused_gpu(tf)


def has_gpu() -> bool:
    """Returns whether the driver of a GPU is loaded."""
    return any(Path(device).exists() for device in _GPU_DEVICES)


def warn_of_unused_gpu(tf: Any) -> None:
    """Prints a line where TensorFlow could use GPUs, but none of this machine's; its own reason is a mere warning."""
    usable = tf.test.is_built_with_cuda() and "CUDA_VISIBLE_DEVICES" not in os.environ
    if usable and not tf.config.list_physical_devices("GPU"):
        print(
            f"this machine has a GPU, but TensorFlow finds none; {_LEVEL}=1 shows its reason, "
            "CUDA_VISIBLE_DEVICES=-1 says that none is wanted",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _stderr_kept() -> Iterator[None]:
    """Keeps what is written to the descriptor of stderr by the block, and shows it if the block raises."""
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
