"""Reports expected errors in one line instead of a traceback."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from bert_tf.entry.printed import printable

# TensorFlow puts names of graph nodes before or after the reason.
_NODES = re.compile(r"\{\{(?:function_)?node [^}]*\}\}|\[\[\{\{node.*|\[Op:.*", re.DOTALL)
_STATUS = re.compile(r"^\(\d+\) [A-Z_]+:\s*")


def is_expected(error: BaseException) -> bool:
    """Returns True for errors of input, system, memory or TensorFlow, which `one_line` reports; False for bugs."""
    return isinstance(error, (ValueError, OSError, RuntimeError, MemoryError)) or is_tensorflow_error(error)


def is_tensorflow_error(error: BaseException, name: str = "OpError") -> bool:
    """Returns True if `error` is an instance of the class `name` of `tf.errors`, without importing TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, getattr(tensorflow.errors, name))


def one_line(error: BaseException) -> str:
    """Formats an expected error (see `is_expected`) as one line."""
    name = type(error).__name__
    if isinstance(error, MemoryError) or is_tensorflow_error(error, "ResourceExhaustedError"):
        reason = _reason(error) or name
        return f"out of memory: {reason}. Give the process more memory, or use smaller batches or fewer workers."
    if isinstance(error, RecursionError):
        return f"the input is nested too deeply: {error}"
    if is_tensorflow_error(error):
        return f"TensorFlow failed: {name}: {_reason(error)}"
    return str(error) or name


def run_program(main: Callable[[], int]) -> int:
    """Calls `main` and returns its exit status, or 1 after reporting an expected error on stderr in one line."""
    try:
        return main()
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"error: {printable(one_line(error))}", file=sys.stderr)
        return 1


def _reason(error: BaseException) -> str:
    """Returns the line of a message that contains the reason: the last one before the node names."""
    text = getattr(error, "message", None) or str(error)
    lines = [_STATUS.sub("", line.strip()) for line in _NODES.sub("", text, count=0).splitlines()]
    return next((line.rstrip(". ") for line in reversed(lines) if line), "")
