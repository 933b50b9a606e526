"""Loads a version in a process of its own, so that a file that crashes TensorFlow does not end the server.

python -m bert_tf.serving.models.trial FOLDER [--trusted]
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_TRUSTED = "--trusted"
_SECONDS = 600


def try_version(folder: Path, *, trusted: bool) -> None:
    """Loads a version and runs its warm-up requests in a new process.

    Args:
        folder: folder of the version.
        trusted: True if its operations may reach beyond the model.

    Raises:
        ValueError: if the process fails, with its last line or the signal that ended it.
    """
    # -P: no module of the working directory.
    command = [sys.executable, "-P", "-m", __name__, str(folder), *([_TRUSTED] if trusted else [])]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "errors": "replace"}
    try:
        done = subprocess.run(command, timeout=_SECONDS, check=False, **pipes)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{folder}: cannot be loaded: a process that tried did not end in {_SECONDS} s") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ValueError(f"{folder}: cannot be loaded: it ended a process that tried with {name}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason was given"]
        raise ValueError(lines[-1].removeprefix("error: "))


def main() -> int:
    """Loads the version of the command line; returns the exit status."""
    from bert_tf.entry.quiet import import_tensorflow

    import_tensorflow()
    from bert_tf.export.warmup import read_warmup, request_of
    from bert_tf.serving.models.batching import ONE_BY_ONE
    from bert_tf.serving.models.loaded_version import LoadedVersion

    folder = Path(sys.argv[1])
    version = LoadedVersion(folder, ONE_BY_ONE, trusted=_TRUSTED in sys.argv[2:])
    version.warm_up(request_of(log) for log in read_warmup(folder))
    return 0


if __name__ == "__main__":
    from bert_tf.entry.errors import run_program

    sys.exit(run_program(main))
