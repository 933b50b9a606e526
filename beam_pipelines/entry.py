"""How a pipeline runs as a program: summary on stdout, everything else on stderr, errors in one line."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from beam_pipelines.errors import PipelineError

_FAILED, _INTERRUPTED = 1, 130


def run_as_program(run: Callable[[Sequence[str]], dict[str, Any]]) -> int:
    """Calls `run` with the command line and prints its summary as the last line of stdout.

    Args:
        run: a pipeline's entry.

    Returns:
        0, or another exit status after one line on stderr that says what went wrong.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    try:
        summary = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return _INTERRUPTED
    except (ValueError, OSError, PipelineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED
    print(json.dumps(summary), flush=True)
    return 0
