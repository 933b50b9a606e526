"""Runs a pipeline as a program: summary on stdout, logs and one-line errors on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.entry.errors import is_expected, one_line

_FAILED, _INTERRUPTED = 1, 130


def run_as_program(run: Callable[[Sequence[str]], dict[str, Any]]) -> int:
    """Calls `run` with the command line and prints its summary as the last line of stdout.

    Returns the exit status: 0, or another one after a one-line error on stderr.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    try:
        summary = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted; run the same command again to resume", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"error: {one_line(error)}", file=sys.stderr)
        return _FAILED
    print(json.dumps(summary), flush=True)
    return 0
