"""Recovery from losses that are not finite: skipped batches and halved learning rates."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.config.files import write_file
from bert_tf.training.loop.checkpoints import NotFiniteError
from bert_tf.training.output import RECOVERY_NAME

# Most recoveries of a run; more indicate another problem.
MOST = 10


@dataclass(frozen=True)
class NanRecovery:
    """Recovery state that determines data order and learning rates; resumed runs reuse it.

    `skipped` are numbers of batches, counted from 0 over the whole run, and `halved` numbers of finished steps after
    each of which the learning rate is halved, both ascending.
    """

    skipped: list[int] = field(default_factory=list)
    halved: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.skipped) + len(self.halved)

    @classmethod
    def load(cls, output: Path) -> NanRecovery:
        """Reads the recovery state of the run in `output`, if any. Raises ConfigError if the file is damaged."""
        path = output / RECOVERY_NAME
        if not path.exists():
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return cls(*(sorted(int(number) for number in fields[name]) for name in ("skipped", "halved")))
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path}: is damaged ({error!r}). Remove it and the checkpoints of its run.") from error

    def save(self, output: Path) -> None:
        """Writes the state into the run's `output` atomically."""
        write_file(output / RECOVERY_NAME, json.dumps(asdict(self)).encode())

    def after(self, error: NotFiniteError, on_nan: str, checkpoints: Sequence[int]) -> NanRecovery:
        """Returns the state with one more entry for `error`, and reports it; raises it again if no recovery is allowed.

        `on_nan` is `skip` to leave out the batch of the failing step, `halve` to halve the learning rate after the last
        of the `checkpoints` (their steps in ascending order), or `stop` to allow no recovery.
        """
        batch = self.batch_of(error.step)
        if on_nan == "stop" or len(self) >= MOST:
            hint = " Set `training.on_nan` to skip or halve to continue." if on_nan == "stop" else ""
            message = f"{error} The step took batch {batch}, counted from 0.{hint}"
            raise NotFiniteError(error.step, message) from error
        skips = on_nan == "skip"
        action = f"skips batch {batch}" if skips else "halves the learning rate"
        print(f"{error} The run returns to step {checkpoints[-1]} and {action}.", file=sys.stderr)
        if skips:
            return replace(self, skipped=sorted([*self.skipped, batch]))
        return replace(self, halved=sorted([*self.halved, checkpoints[-1]]))

    def batch_of(self, step: int) -> int:
        """Returns the number of the batch of the step after `step` finished ones."""
        for batch in self.skipped:
            step += batch <= step
        return step

    def step_of(self, batch: int) -> int:
        """Returns the number of steps taken with the batches before `batch`."""
        return batch - sum(skipped < batch for skipped in self.skipped)
