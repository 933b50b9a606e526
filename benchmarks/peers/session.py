"""The contender's side of the protocol of `benchmarks.interleave`; needs only the standard library.

A contender runs steps endlessly and calls `Session.after_step` after each. It reads lines `go W N`, for W warm-up steps
and N timed steps, and writes lines of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1


class Session:
    """Counts and times the steps of this process, and blocks it between rounds.

    From here on, output of the process goes to stderr, because stdout is the channel to the parent. The process dies
    with its parent.
    """

    def __init__(self) -> None:
        # A stopped process would otherwise outlive a parent that was killed.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        self._replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._facts: dict[str, Any] = {}
        self._greeted = False
        self._warmup = self._steps = self._left = 0
        self._units = self._since = 0.0

    def tell(self, **facts: Any) -> None:
        """Adds facts, such as the number of parameters, to the first message, which follows the first step."""
        self._facts |= facts

    def after_step(self, loss: float | Callable[[], float] | None = None, units: float = 0.0) -> None:
        """Records the end of a step, and returns when the next step should start.

        Args:
            loss: loss of the step, or a function that returns it, which is called between rounds only.
            units: units of work done in the step, such as tokens.
        """
        now = time.perf_counter()
        if not self._greeted:
            self._greeted = True
            self._reply(self._facts | {"loss": loss() if callable(loss) else loss})
        elif self._warmup:
            self._warmup -= 1
            self._since = time.perf_counter()
        else:
            self._left -= 1
            self._units += units
            if not self._left:
                loss = loss() if callable(loss) else loss
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
                self._reply({"steps": self._steps, "seconds": now - self._since, "units": self._units, "loss": loss,
                             "peak_bytes": peak})  # fmt: skip

    def _reply(self, message: dict[str, Any]) -> None:
        """Sends a message and waits for the next command. Raises SystemExit at the end of the input."""
        print(json.dumps(message), file=self._replies, flush=True)
        words = sys.stdin.readline().split()
        if not words:
            raise SystemExit
        if len(words) != 3 or words[0] != "go":
            raise ValueError(f"a command must be `go WARMUP STEPS`. Received: {' '.join(words)!r}")
        self._warmup, self._steps = int(words[1]), int(words[2])
        self._left, self._units = self._steps, 0.0
        self._since = time.perf_counter()


def limit_threads(count: int) -> None:
    """Limits the threads of TensorFlow; must be called before its first operation."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)
