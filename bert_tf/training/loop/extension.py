"""Continuation of a run with another number of steps, from the constant part of its schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bert_tf.config import ConfigError, TrainingConfig
from bert_tf.config.base import from_dict
from bert_tf.config.preset_names import CHECKPOINTS_NAME, checkpoint_name, checkpoint_steps
from bert_tf.training.loop.checkpoints import read_state

_SECTION = "training."


@dataclass(frozen=True)
class Extension:
    """The rule by which a run goes on from the checkpoint of a run with other `EXTENDABLE` settings.

    Both must take the same steps up to the checkpoint: the same rates and the same batches. An extended run thus equals
    a run that had the larger number of steps from the start.

    Args:
        config: configuration of this run.
        common_batches: returns the number of first batches that a run with another configuration has too; None if
            batches depend on the number of steps in another way, so that runs cannot be extended.
    """

    config: TrainingConfig
    common_batches: Callable[[TrainingConfig], int] | None = None

    def common_steps(self, stored: Mapping[str, Any]) -> int | None:
        """Returns the number of first steps that a stored run, by its flat settings, has in common with this one.

        Returns None if a run with these settings cannot be extended to this one.
        """
        former = stored_config(stored)
        if self.common_batches is None or former is None or not self.config.is_extendable:
            return None
        if _warmup(former) != _warmup(self.config):
            return None
        return min(self.common_batches(former), self.config.decay_start, former.decay_start)

    @property
    def keep_step(self) -> int | None:
        """The last step that every longer run has too, whose checkpoint is kept; None for a run of another schedule."""
        if self.common_batches is None or not self.config.is_extendable:
            return None
        longer = replace(self.config, steps=2 * self.config.steps)
        return min(self.common_batches(longer), self.config.decay_start)


def with_former_warmup(config: TrainingConfig, output: Path) -> TrainingConfig:
    """Returns the configuration of a run with the warm-up of the run in `output`, if it extends that one.

    The default warm-up is a share of all steps, and the run has taken it already.
    """
    if not config.is_extendable or config.warmup_steps >= 0:
        return config
    directory = output / CHECKPOINTS_NAME
    for step in reversed(checkpoint_steps(directory)):
        try:
            former = stored_config(read_state(directory / checkpoint_name(step))["run"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # A damaged checkpoint, which `CheckpointStore.restore` names.
        if former is not None and former.schedule == config.schedule and _warmup(former) != _warmup(config):
            return replace(config, warmup_steps=_warmup(former))
        return config
    return config


def stored_config(stored: Mapping[str, Any]) -> TrainingConfig | None:
    """Returns the training configuration in the flat settings of a checkpoint; None if another version wrote it."""
    known = {field.name for field in fields(TrainingConfig)}
    values = {name.removeprefix(_SECTION): value for name, value in stored.items() if name.startswith(_SECTION)}
    try:
        return from_dict(TrainingConfig, values) if values.keys() <= known else None
    except ConfigError:
        return None


def _warmup(config: TrainingConfig) -> int:
    return config.resolved_warmup(config.steps)
