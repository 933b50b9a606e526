"""`python -m beam_pipelines.runners.worker_main`: a worker of Beam's that ends when its driver does."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


def watch_input(descriptor: int, end: Callable[[], object]) -> None:
    """Calls `end` from a thread once the other end of a pipe is closed.

    Args:
        descriptor: of the end that is read; nothing is ever written to the other.
        end: ends this process.
    """

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        end()

    threading.Thread(target=wait, name="watch_driver", daemon=True).start()


def main() -> None:
    """Runs a worker until its driver closes standard input, or ends."""
    # At once: what a worker writes for a driver that was killed is of no use.
    watch_input(sys.stdin.fileno(), lambda: os._exit(1))
    from apache_beam.runners.worker import sdk_worker_main  # takes a second, in which the driver may end

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
