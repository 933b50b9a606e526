"""Settings of glibc's malloc for TensorFlow, which allocates and frees large buffers in every step."""

from __future__ import annotations

import ctypes
import platform

# Parameter numbers of <malloc.h>; they are part of glibc's ABI and do not change.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8

_TOP_PAD_BYTES = 512 * 1024 * 1024


def tune_allocator() -> bool:
    """Makes malloc keep freed memory instead of returning it to the kernel after every step.

    By default glibc may map a large buffer for each allocation and unmap it when freed, so that every training step
    causes the same page faults again. The cost depends on model and kernel, from nothing to a fifth of a step. The four
    settings (no mmap, one arena, no trimming, growth by 512 MiB) are those of `MALLOC_MMAP_MAX_`, `MALLOC_ARENA_MAX`,
    `MALLOC_TRIM_THRESHOLD_` and `MALLOC_TOP_PAD_`. Peak memory is unchanged; memory between the peaks is no longer
    returned. Call it once, before the first large allocation. Returns False, with nothing changed, if the C library is
    not glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # A trim threshold of -1 is "never" (mallopt(3)).
    settings = {_M_MMAP_MAX: 0, _M_ARENA_MAX: 1, _M_TRIM_THRESHOLD: -1, _M_TOP_PAD: _TOP_PAD_BYTES}
    taken = [mallopt(parameter, value) == 1 for parameter, value in settings.items()]
    return all(taken)
