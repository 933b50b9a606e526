"""Memory that is returned to the system."""

from __future__ import annotations

import ctypes
import gc
import platform


def release_memory() -> None:
    """Collects cycles, and has glibc return what it holds of freed memory.

    A model holds reference cycles, and Python rarely runs a full collection while TensorFlow's many objects are alive.
    The freed memory lies between the objects of requests, so glibc does not return it by itself.
    """
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
