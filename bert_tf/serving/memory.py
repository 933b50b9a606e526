"""Returns freed memory to the operating system."""

from __future__ import annotations

import ctypes
import gc
import platform


def release_memory() -> None:
    """Collects reference cycles, and lets glibc return freed memory to the system.

    A model contains reference cycles, and Python rarely runs a full collection while TensorFlow's many objects are
    alive. The freed memory lies between the objects of requests, so glibc does not return it automatically.
    """
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
