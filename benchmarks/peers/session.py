"""The contender's end of the line to `benchmarks.interleave`; needs nothing beyond Python.

A contender takes steps without end and calls `Session.after_step` after each. What it reads are lines `go W N`: W steps
to warm up and N that are timed; what it writes are lines of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1


class Session:
    """Counts and times the steps of this process, and holds it between the rounds.

    What the process prints goes to stderr from here on: stdout is the line to the parent, with which it dies.
    """

    def __init__(self) -> None:
        # A process that is stopped would outlast a parent that was killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        self._replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._facts: dict[str, Any] = {}
        self._greeted = False
        self._warmup = self._steps = self._left = 0
        self._units = self._since = 0.0

    def tell(self, **facts: Any) -> None:
        """Adds facts, such as the number of parameters, to the greeting that follows the first step."""
        self._facts |= facts

    def after_step(self, loss: float | None = None, units: float = 0.0) -> None:
        """Notes that a step has ended; returns when the next is to be taken.

        Args:
            loss: of the step.
            units: of work that it did, such as tokens.
        """
        now = time.perf_counter()
        if not self._greeted:
            self._greeted = True
            self._reply(self._facts | {"loss": loss})
        elif self._warmup:
            self._warmup -= 1
            self._since = time.perf_counter()
        else:
            self._left -= 1
            self._units += units
            if not self._left:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
                self._reply({"steps": self._steps, "seconds": now - self._since, "units": self._units, "loss": loss,
                             "peak_bytes": peak})  # fmt: skip

    def _reply(self, message: dict[str, Any]) -> None:
        """Sends a message and waits for the next command. Raises SystemExit when there is none any more."""
        print(json.dumps(message), file=self._replies, flush=True)
        words = sys.stdin.readline().split()
        if not words:
            raise SystemExit
        if len(words) != 3 or words[0] != "go":
            raise ValueError(f"a command must be `go WARMUP STEPS`. Received: {' '.join(words)!r}")
        self._warmup, self._steps = int(words[1]), int(words[2])
        self._left, self._units = self._steps, 0.0
        self._since = time.perf_counter()
