"""Atomically written checkpoints of all model and optimizer variables, for exact resumption."""

from __future__ import annotations

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_tf.config import BertConfig, ConfigError, TrainingConfig, to_dict
from bert_tf.config.base import flatten
from bert_tf.config.files import sha256_of, sync_directory
from bert_tf.config.preset_names import STATE_NAME, checkpoint_name, checkpoint_steps
from bert_tf.storage import publish

FORMAT = 1
# Settings that may differ between the run that wrote a checkpoint and the run that resumes it.
BOOKKEEPING = frozenset(
    f"training.{name}"
    for name in (
        "log_every",
        "checkpoint_every",
        "keep_checkpoints",
        "keep_every",
        "evaluate_every",
        "evaluate_steps",
        "show_examples",
        "profile_steps",
        "on_nan",
        "worker_timeout",
        "tpu_name",
        "peak_flops",
    )
)
# Settings that may differ between a run and its extension (see `extension`).
EXTENDABLE = frozenset({"steps", "training.steps", "training.decay_steps", "training.warmup_steps"})
# Settings that a checkpoint of an earlier version lacks; their defaults are what that version did.
_DEFAULTS = flatten({"training": to_dict(TrainingConfig()), "model": to_dict(BertConfig())})

_LOGGER = logging.getLogger(__name__)


class TrainingError(RuntimeError):
    """A run cannot continue; the message names the step and the state of the run."""


class NotFiniteError(TrainingError):
    """A loss or a gradient is not finite; `step` steps were finished before the failing one."""

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True)
class Writing:
    """Settings for writing checkpoints.

    Args:
        keep: number of the newest checkpoints to keep.
        keep_every: checkpoints of multiples of this step are kept too; 0 keeps only the newest.
        keep_step: the checkpoint of this step is kept too; None for no other.
        writes: False in processes that do not write.
        array_of: returns the value of a variable in memory that is released with the array.
        describe: writes files that describe the model to the directory of the checkpoint of a step; None writes none.
        weights: returns the variables with the weights to evaluate after a step, by their path in the model.
    """

    keep: int = 3
    keep_every: int = 0
    keep_step: int | None = None
    writes: bool = True
    array_of: Callable[[keras.Variable], np.ndarray] = keras.ops.convert_to_numpy
    describe: Callable[[Path, int], None] | None = None
    weights: Callable[[int], Mapping[str, keras.Variable]] = lambda step: {}


class CheckpointStore:
    """Checkpoints of one run: `<directory>/step-00001000/` with one .npz per group and `state.json`.

    `groups` has variables by file name, in an order that is the same in every process. `run` has all settings that the
    run depends on (nested dictionaries); checkpoints of other runs are refused. The settings `free` may differ between
    the run that wrote a checkpoint and this one, as `BOOKKEEPING` may. `common_steps` returns the number of first steps
    that a run with other `EXTENDABLE` settings has in common with this one, from its flat settings; None if it has
    none.
    """

    def __init__(
        self,
        directory: Path,
        groups: Mapping[str, Sequence[keras.Variable]],
        run: Mapping[str, Any],
        writing: Writing | None = None,
        free: Collection[str] = (),
        common_steps: Callable[[Mapping[str, Any]], int | None] = lambda stored: None,
    ) -> None:
        self.directory = directory
        self._common_steps = common_steps
        self._free = BOOKKEEPING.union(free)
        self._groups = groups
        # Through JSON, as in a stored checkpoint: tuples become lists on both sides.
        self._run = json.loads(json.dumps(flatten(run)))
        self._writing = writing or Writing()

    def path(self, step: int) -> Path:
        """Returns the directory of the checkpoint of `step`."""
        return self.directory / checkpoint_name(step)

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, oldest first."""
        return checkpoint_steps(self.directory)

    def save(self, step: int, progress: Mapping[str, float]) -> Path:
        """Writes the checkpoint of `step`, with metrics that `restore` returns, and removes those not to be kept.

        An output on a store is uploaded. Raises OSError if the checkpoint cannot be written, and leaves no partial
        files; TrainingError if a weight is not finite; StoreError if it cannot be uploaded.
        """
        target = self.path(step)
        if not self._writing.writes:
            return target
        staging = target.with_name(f".staging-{target.name}")
        try:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
            files = {}
            for name, variables in self._groups.items():
                _write_arrays(staging / f"{name}.npz", variables, self._writing.array_of, step)
                files[f"{name}.npz"] = sha256_of(staging / f"{name}.npz")
            state = {
                "format": FORMAT,
                "step": step,
                "run": self._run,
                "progress": dict(progress),
                "files": files,
                "variables": {name: _describe(variables) for name, variables in self._groups.items()},
                "weights": self._places(step),
            }
            if self._writing.describe:
                self._writing.describe(staging, step)
            _write_synced(staging / STATE_NAME, json.dumps(state, indent=1).encode())
            sync_directory(staging)
            staging.rename(target)
        except OSError as error:
            reason = f"the checkpoint of step {step} could not be written: {error.strerror}"
            raise OSError(error.errno, reason, str(target)) from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        sync_directory(self.directory)
        for old in self._surplus():
            # Renamed first: a partly removed checkpoint must not be reported as damaged.
            removed = self.path(old).rename(self.directory / f".staging-{self.path(old).name}")
            shutil.rmtree(removed)
        publish(target)
        return target

    def _surplus(self) -> list[int]:
        """Returns the steps of checkpoints to remove."""
        every = self._writing.keep_every
        old = [step for step in self.steps()[: -self._writing.keep] if step != self._writing.keep_step]
        return [step for step in old if not every or not step or step % every]

    def _places(self, step: int) -> dict[str, tuple[str, int]]:
        """Returns group and position of the weights to evaluate after a step, by their path in the model."""
        places = {
            id(variable): (name, position)
            for name, variables in self._groups.items()
            for position, variable in enumerate(variables)
        }
        return {path: places[id(variable)] for path, variable in self._writing.weights(step).items()}

    def restore(self) -> tuple[int, dict[str, float]]:
        """Restores the newest undamaged checkpoint; returns its step and metrics, 0 and {} if absent.

        Each newer, damaged checkpoint is named in a warning and renamed to `step-….damaged`. Newer checkpoints of a run
        that this one extends, after their last common step, are renamed to `step-….superseded`. Raises ConfigError if
        the newest undamaged checkpoint is of another run or another model, or if no checkpoint is of a common step.
        Raises TrainingError if there are checkpoints,
        and all of them except one of step 0 are damaged; they are kept unchanged.
        """
        if self._writing.writes:
            for leftover in self.directory.glob(".staging-step-*"):
                shutil.rmtree(leftover)
        damaged, superseded = [], []
        for step in reversed(self.steps()):
            path = self.path(step)
            try:
                state = read_state(path)
                common = self._checked_steps(path, state)
                if common is not None and step > common:
                    superseded.append(path)
                    continue
                arrays = {name: _read_arrays(path, name, state) for name in self._groups}
            except ConfigError:
                raise
            except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
                _LOGGER.warning("%s is damaged (%s): skipped, the next older checkpoint is used.", path, error)
                damaged.append(path)
                continue
            if not step and damaged:
                break
            if self._writing.writes:
                for damaged_path in damaged:
                    _set_aside(damaged_path, "damaged")
                for superseded_path in superseded:
                    aside = _set_aside(superseded_path, "superseded")
                    _LOGGER.warning("the run goes on from step %d with other steps: %s was set aside", step, aside)
            self._assign(arrays)
            return step, state["progress"]
        if superseded:
            raise ConfigError(
                f"{self.directory}: no checkpoint is of a step that both runs have in common, {common} or less. "
                f"Received: {', '.join(path.name for path in superseded)}. Use the stored steps and decay, or start "
                f"another run from the weights with --init {self.directory.parent}@latest.{self._set_aside_earlier()}"
            )
        self._refuse_to_start_again(damaged)
        return 0, {}

    def _assign(self, arrays: Mapping[str, Sequence[np.ndarray]]) -> None:
        for name, variables in self._groups.items():
            for variable, array in zip(variables, arrays[name], strict=True):
                variable.assign(array)

    def _set_aside_earlier(self) -> str:
        names = sorted(path.name for path in self.directory.glob("step-*.superseded"))
        hint = f" Checkpoints that were set aside can be renamed to be used again: {', '.join(names)}."
        return hint if names else ""

    def _refuse_to_start_again(self, damaged: Sequence[Path]) -> None:
        lost = sorted({*damaged, *self.directory.glob("step-*.damaged")})
        if lost:
            raise TrainingError(
                f"{self.directory}: every checkpoint is damaged ({', '.join(path.name for path in lost)}). Put an "
                f"undamaged checkpoint back, or remove {self.directory} to start again from step 0."
            )

    def _checked_steps(self, path: Path, state: Mapping[str, Any]) -> int | None:
        """Returns the number of first steps that the run of a checkpoint has in common with this one; None for all.

        Raises ConfigError if it is another run, or one that this run does not extend.
        """
        stored = {name: _DEFAULTS[name] for name in self._run.keys() & _DEFAULTS.keys()} | state["run"]
        fields = sorted((self._run.keys() | stored.keys()) - self._free)
        other = [field for field in fields if self._run.get(field) != stored.get(field)]
        common = self._common_steps(stored) if other and EXTENDABLE.issuperset(other) else None
        if other and common is None:
            # Of a run that could be extended, only the warm-up may be at fault.
            other.sort(key=lambda field: (field in EXTENDABLE, field != "training.warmup_steps", field))
            advice = "Use the stored value or another output directory."
            if EXTENDABLE.issuperset(other) and self._run.get("training.schedule") != "trapezoidal":
                advice += (
                    " Only a run of `training.schedule` = trapezoidal can be extended. Start another run from its "
                    f"weights with --init {self.directory.parent}@latest."
                )
            raise ConfigError(
                f"{path}: belongs to a run with another `{other[0]}` ({stored.get(other[0])!r}). "
                f"Received: {self._run.get(other[0])!r}. {advice}"
            )
        for name, variables in self._groups.items():
            current, saved = _describe(variables), state["variables"][name]
            for position in range(max(len(current), len(saved))):
                if current[position : position + 1] != saved[position : position + 1]:
                    raise ConfigError(
                        f"{path}: variable {position} of {name} must have the stored shape and dtype, "
                        f"{saved[position : position + 1]}. Received: {current[position : position + 1]}"
                    )
        return common


def _write_arrays(
    path: Path, variables: Sequence[keras.Variable], array_of: Callable[[keras.Variable], np.ndarray], step: int
) -> None:
    """Writes an .npz one array at a time, so that the host never holds a second copy of the whole state."""
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for position, variable in enumerate(variables):
                array = array_of(variable)
                if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                    raise TrainingError(
                        f"step {step}: variable `{variable.path}` has values that are not finite, so no checkpoint "
                        f"is written to {path.parent.parent}."
                    )
                # A plain ZipInfo has a fixed date, so that equal states are equal bytes.
                entry = zipfile.ZipInfo(array_name(position))
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def read_state(path: Path) -> dict[str, Any]:
    """Returns the content of a checkpoint's state.json. Raises ConfigError for another format."""
    state = json.loads((path / STATE_NAME).read_bytes())
    if state["format"] != FORMAT:
        raise ConfigError(f"{path / STATE_NAME}: `format` must be {FORMAT}. Received: {state['format']}")
    return state


def _read_arrays(path: Path, name: str, state: Mapping[str, Any]) -> list[np.ndarray]:
    file = path / f"{name}.npz"
    if sha256_of(file) != state["files"][file.name]:
        raise ValueError(f"{file.name} does not match its checksum")
    with zipfile.ZipFile(file) as archive:
        arrays = []
        for position in range(len(state["variables"][name])):
            with archive.open(array_name(position)) as member:
                arrays.append(np.lib.format.read_array(member, allow_pickle=False))
        return arrays


def array_name(position: int) -> str:
    """Returns the name of an array in an .npz file of a checkpoint."""
    return f"{position:05d}.npy"


def _describe(variables: Sequence[keras.Variable]) -> list[list[Any]]:
    """Returns shape and dtype of each variable; paths contain counters that depend on objects built before."""
    return [[list(v.shape), str(keras.backend.standardize_dtype(v.dtype))] for v in variables]


def _set_aside(path: Path, reason: str) -> Path:
    aside = path.with_name(f"{path.name}.{reason}")
    shutil.rmtree(aside, ignore_errors=True)
    return path.rename(aside)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
