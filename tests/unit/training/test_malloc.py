from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from bert_tf.training import malloc as allocator

# malloc maps blocks of this size (64 MiB) separately.
_PROBE = """
import ctypes, sys
from bert_tf.training.malloc import tune_allocator
if sys.argv[1] == "tuned":
    assert tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
address = libc.malloc(ctypes.c_size_t(64 * 1024 * 1024))
heap = next(line for line in open("/proc/self/maps") if "[heap]" in line).split()[0]
low, high = (int(part, 16) for part in heap.split("-"))
print(low <= address < high)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize(("mode", "on_heap"), [("stock", "False"), ("tuned", "True")])
def test_large_buffers_come_from_the_heap(mode, on_heap):
    result = subprocess.run(
        [sys.executable, "-c", _PROBE, mode], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == on_heap


def test_nothing_happens_without_glibc(monkeypatch):
    monkeypatch.setattr(allocator.platform, "libc_ver", lambda: ("", ""))
    assert allocator.tune_allocator() is False
