"""What a run does differently since a loss that was not finite: batches left out, rates halved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bert_tf.config import ConfigError
from bert_tf.data.atomic_files import staged_file
from bert_tf.data.input.batches import Dataset

RECOVERY_NAME = "detours.json"
# A run that needs more has another fault.
MOST = 10


@dataclass(frozen=True)
class NanRecovery:
    """A function of which the order of the data and the rates are: a resumed run takes the same ones.

    Args:
        skipped: numbers of the batches that are left out, counted from 0 over the whole run, ascending.
        halved: finished steps after each of which the learning rate is half of what it was.
    """

    skipped: list[int] = field(default_factory=list)
    halved: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.skipped) + len(self.halved)

    @classmethod
    def load(cls, output: Path) -> NanRecovery:
        """Reads those of the run in `output`; none where there is no file.

        Raises:
            ConfigError: for a file that is none of ours.
        """
        path = output / RECOVERY_NAME
        if not path.exists():
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return cls(*(sorted(int(number) for number in fields[name]) for name in ("skipped", "halved")))
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{path}: is damaged ({error!r}); remove it with the checkpoints it belongs to."
            ) from error

    def save(self, output: Path) -> None:
        """Writes them into the run's `output`, whole or not at all."""
        with staged_file(output / RECOVERY_NAME) as file:
            file.write(json.dumps(asdict(self)).encode())

    def skip(self, step: int) -> NanRecovery:
        """Returns these and one more: the batch that the step after `step` finished ones took is left out."""
        return replace(self, skipped=sorted([*self.skipped, self.batch_of(step)]))

    def halve(self, step: int) -> NanRecovery:
        """Returns these and one more: after `step` finished steps the rate is halved."""
        return replace(self, halved=sorted([*self.halved, step]))

    def batch_of(self, step: int) -> int:
        """Returns the number of the batch that the step after `step` finished ones takes."""
        for batch in self.skipped:
            step += batch <= step
        return step

    def step_of(self, batch: int) -> int:
        """Returns the number of steps that batches before `batch` are taken by."""
        return batch - sum(skipped < batch for skipped in self.skipped)

    def around(self, make_dataset: Callable[[int], Dataset]) -> Callable[[int], Dataset]:
        """Returns the same batches from a given step on, without those left out."""

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
