"""Workers of a run on any backend: their shares of the rows, common decisions, and comparisons at the start."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config.base import flatten
from bert_tf.data.input.dataset import RowShare
from bert_tf.training.loop.checkpoints import TrainingError

# Settings that may differ between the workers of a run.
_OF_ONE_WORKER = frozenset({"training.worker_timeout", "training.peak_flops", "training.tpu_name"})
_PACKAGE = Path(__file__).parents[2]
# What to do about a difference, by the first part of the name of what differs.
_SOLUTIONS = {
    "code": "Install the same version of bert_tf on every worker.",
    "libraries": "Install the versions of constraints.txt on every worker.",
    "data": "Use a data directory that all workers share, or equal copies of it.",
}


class Workers(ABC):
    """The processes of a run; all of them call each method at the same points.

    Args:
        names: names of the workers for errors, such as their addresses.
        index: index of this process among them.
    """

    def __init__(self, names: Sequence[str], index: int) -> None:
        self.names, self.index = tuple(names), index

    @property
    def is_chief(self) -> bool:
        """True in the process that writes files."""
        return self.index == 0

    @property
    def share(self) -> RowShare:
        """Rows of each global batch that this process reads."""
        return RowShare(self.index, len(self.names))

    @property
    def others(self) -> str:
        """Names of the other workers."""
        return " or ".join(name for index, name in enumerate(self.names) if index != self.index)

    @abstractmethod
    def gather(self, values: Sequence[int]) -> np.ndarray:
        """Returns the numbers of all workers, in their order: (workers, n) from n int32 numbers of each."""

    def wait(self) -> None:
        """Waits until all workers have called this method."""
        self.gather([0])

    def agree(self, stop: bool, milliseconds: int) -> tuple[bool, int]:
        """Returns True if any worker was asked to stop, and the largest number of milliseconds.

        Args:
            stop: whether this worker was asked to stop.
            milliseconds: time since the last agreement.
        """
        stops, times = self.gather([int(stop), milliseconds]).T
        return bool(stops.any()), int(times.max())

    def gather_texts(self, text: str) -> list[str]:
        """Returns the texts of all workers, in their order."""
        content = text.encode()
        sizes = self.gather([len(content)])[:, 0]
        rows = self.gather(list(content.ljust(int(sizes.max()), b" ")))
        return [bytes(row[:size].astype(np.uint8)).decode() for row, size in zip(rows, sizes, strict=True)]

    def check_same_step(self, step: int) -> None:
        """Raises TrainingError if the workers read checkpoints of different steps."""
        steps = self.gather([step])[:, 0].tolist()
        if len(set(steps)) > 1:
            workers = zip(self.names, steps, strict=True)
            each = ", ".join(f"{worker} after step {number}" for worker, number in workers)
            raise TrainingError(
                f"all workers must resume after the same step. Received: {each}. Use an output directory that all "
                f"workers share."
            )

    def check_same_run(self, facts: Mapping[str, Any]) -> None:
        """Raises TrainingError if the workers differ in code, libraries, data or settings.

        Args:
            facts: settings, data and model of the run as JSON values.
        """
        mine = flatten({"code": code_version(), "libraries": library_versions(), **facts})
        runs = [json.loads(text) for text in self.gather_texts(json.dumps(mine, sort_keys=True, default=str))]
        for name in sorted({name for run in runs for name in run} - _OF_ONE_WORKER):
            values = [run.get(name) for run in runs]
            if any(value != values[0] for value in values):
                each = ", ".join(f"{worker} {value!r}" for worker, value in zip(self.names, values, strict=True))
                solution = _SOLUTIONS.get(name.partition(".")[0], "Start the same command on every worker.")
                raise TrainingError(f"all workers must have the same `{name}`. Received: {each}. {solution}")

    def lost(self, step: int, name: str = "") -> TrainingError:
        """Returns the error of a run whose worker `name`, if it is known, has ended after `step` steps."""
        return TrainingError(
            f"step {step}: another worker was lost ({name or self.others}). Start all workers again with the same "
            "command to resume from the last checkpoint."
        )


@functools.cache
def code_version() -> str:
    """Returns the version of this package and a hash of its source files.

    Example:
        >>> from bert_tf.training.distributed.collectives import code_version
        >>> code_version() == code_version()
        True
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{_version('bert-tf')} {digest.hexdigest()[:12]}"


def library_versions() -> str:
    """Returns the versions of the libraries that compute a step.

    Example:
        >>> from bert_tf.training.distributed.collectives import library_versions
        >>> "keras" in library_versions()
        True
    """
    versions = {name: _version(name) for name in ("keras", "numpy", "tensorflow", "jax", "jaxlib")}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
