"""Keeps the memory of a server small: fewer arenas of malloc, and freed memory returned to the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
import platform

# Parameter number of <malloc.h>; glibc never changes it.
_M_ARENA_MAX = -8


def limit_arenas() -> None:
    """Limits glibc to one arena of malloc per core, unless `MALLOC_ARENA_MAX` is set; call it before threads start.

    By default there are up to eight per core. Free memory of one arena is not used by the threads of another one, so
    that a server whose versions change holds more of it from load to load.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_ARENA_MAX" not in os.environ:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, os.cpu_count() or 1)


def release_memory() -> None:
    """Collects reference cycles, and lets glibc return freed memory to the system.

    A model contains reference cycles, and Python rarely runs a full collection while TensorFlow's many objects are
    alive. The freed memory lies between the objects of requests, so glibc does not return it automatically.
    """
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Lets glibc return freed memory to the system; it takes some milliseconds, without Python's lock."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
