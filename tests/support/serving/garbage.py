"""Detects objects that are freed only by the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterator


@contextlib.contextmanager
def nothing_left_in_cycles() -> Iterator[None]:
    """Checks that a block leaves no frames of the server's functions to the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        codes = [found.f_code for found in gc.garbage if isinstance(found, types.FrameType)]
        assert [code.co_qualname for code in codes if "/bert_tf/export/" in code.co_filename] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
