"""Runs the command line in a process that sends itself a signal at a chosen moment.

    python at_moment.py PATTERN LATER SIGNAL ARGUMENT ...

The signal is sent LATER events after the first event that PATTERN matches in Python's audit log, as `open <path>` or
`import <name>`. Python reports every file, import and compilation there, thousands of events for a traced function and
hundreds for a checkpoint. A number of events is therefore a moment that does not depend on machine and load. The
ARGUMENTs are those of `bert-tf`.
"""

from __future__ import annotations

import os
import re
import signal
import sys


def send_at(pattern: str, later: int, number: int) -> None:
    """Sends `number` to this process `later` events after the first that `pattern` matches."""
    wanted = re.compile(pattern)
    left: int | None = None

    def hook(event: str, arguments: tuple) -> None:
        nonlocal left
        if left is None and wanted.search(f"{event} {arguments[0] if arguments else ''}"):
            left = later
        elif left:
            left -= 1
            if not left:
                os.kill(os.getpid(), number)

    sys.addaudithook(hook)


if __name__ == "__main__":
    moment, events, name, *arguments = sys.argv[1:]
    send_at(moment, int(events), getattr(signal, name))
    from bert_tf.cli import main

    sys.exit(main(arguments))
