"""`python -m beam_pipelines.runners.worker_main`: a Beam worker that ends when its driver ends."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


def watch_input(descriptor: int, end: Callable[[], object]) -> None:
    """Calls `end` from a thread when the other end of a pipe, to which nothing is ever written, is closed."""

    def wait() -> None:
        while os.read(descriptor, 1):
            pass
        end()

    threading.Thread(target=wait, name="watch_driver", daemon=True).start()


def main() -> None:
    """Runs a worker until its driver closes standard input or ends."""
    # The worker exits at once, because its output is useless after the driver was killed.
    watch_input(sys.stdin.fileno(), lambda: os._exit(1))
    from apache_beam.runners.worker import sdk_worker_main  # takes a second; the driver may end meanwhile

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
