"""Recovery from losses that are not finite: skipped batches and halved learning rates."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.config.files import staged_file
from bert_tf.data.input.batches import Dataset

RECOVERY_NAME = "detours.json"
# Most recoveries of a run; more indicate another problem.
MOST = 10


@dataclass(frozen=True)
class NanRecovery:
    """Recovery state that determines data order and learning rates; resumed runs reuse it.

    Args:
        skipped: numbers of the skipped batches, counted from 0 over the whole run, ascending.
        halved: numbers of finished steps after each of which the learning rate is halved.
    """

    skipped: list[int] = field(default_factory=list)
    halved: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.skipped) + len(self.halved)

    @classmethod
    def load(cls, output: Path) -> NanRecovery:
        """Reads the recovery state of the run in `output`; an empty one if there is no file.

        Args:
            output: output directory of the run.

        Raises:
            ConfigError: if the file is damaged.
        """
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
        with staged_file(output / RECOVERY_NAME) as file:
            file.write(json.dumps(asdict(self)).encode())

    def skip(self, step: int) -> NanRecovery:
        """Returns the state with one more skipped batch: that of the step after `step` finished ones."""
        return replace(self, skipped=sorted([*self.skipped, self.batch_of(step)]))

    def halve(self, step: int) -> NanRecovery:
        """Returns the state with one more halving of the learning rate, after `step` finished steps."""
        return replace(self, halved=sorted([*self.halved, step]))

    def batch_of(self, step: int) -> int:
        """Returns the number of the batch of the step after `step` finished ones."""
        for batch in self.skipped:
            step += batch <= step
        return step

    def step_of(self, batch: int) -> int:
        """Returns the number of steps taken with the batches before `batch`."""
        return batch - sum(skipped < batch for skipped in self.skipped)

    def around(self, make_dataset: Callable[[int], Dataset]) -> Callable[[int], Dataset]:
        """Returns a function for the same batches from a step on, without the skipped ones."""

        def make(start_step: int) -> Dataset:
            position = self.batch_of(start_step)
            pieces = []
            for batch in self.skipped:
                if batch >= position:
                    pieces.append((position, batch))
                    position = batch + 1
            dataset = make_dataset(position)
            for first, end in reversed(pieces):
                dataset = make_dataset(first).take(end - first).concatenate(dataset)
            return dataset

        return make
