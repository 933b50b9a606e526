"""Memory that is returned to the system."""

from __future__ import annotations

import ctypes
import gc
import platform


def release_memory() -> None:
    """Collects cycles, and has glibc return what it holds of freed memory.

    A model is full of cycles, and beside TensorFlow's many objects Python seldom looks for any. What a model leaves lies
    between the objects of requests, where glibc by itself returns none of it.
    """
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
