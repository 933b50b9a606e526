"""Weights in a checkpoint of a run, read without the optimizer's state."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import ConfigError
from bert_tf.config.preset_names import STATE_NAME
from bert_tf.training.loop.checkpoints import array_name, read_state

_DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile)


@dataclass(frozen=True)
class CheckpointWeights:
    """Weights by their path in the model: moving averages if the run keeps any, as in evaluations and in its preset.

    Files stay open once they are read, so that a run may remove the checkpoint meanwhile.

    Args:
        directory: directory of the checkpoint.
    """

    directory: Path

    def __str__(self) -> str:
        return str(self.directory)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of all weights. Raises ConfigError for a damaged checkpoint."""
        try:
            variables = self._state["variables"]
            return {
                path: tuple(variables[group][position][0]) for path, (group, position) in self._state["weights"].items()
            }
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32. Raises ConfigError if it is missing, or differs from its checksum."""
        try:
            group, position = self._state["weights"][name]
            with self._archives[group].open(array_name(position)) as member:
                # The archive checks the checksum at the end of the member.
                return np.lib.format.read_array(member, allow_pickle=False).astype(np.float32, copy=False)
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def sha256(self) -> str:
        """Returns a SHA-256 that identifies the values: that of the file, or those of all files with averages."""
        try:
            groups = {group for group, _ in self._state["weights"].values()}
            return "+".join(self._state["files"][f"{group}.npz"] for group in sorted(groups))
        except _DAMAGE as error:
            raise self._damaged(error) from error

    @cached_property
    def _state(self) -> dict[str, Any]:
        return read_state(self.directory)

    @cached_property
    def _archives(self) -> dict[str, zipfile.ZipFile]:
        groups = {group for group, _ in self._state["weights"].values()}
        return {group: zipfile.ZipFile(self.directory / f"{group}.npz") for group in groups}

    def _damaged(self, error: Exception) -> ConfigError:
        if not (self.directory / STATE_NAME).is_file():
            return ConfigError(
                f"{self.directory}: the run has removed this checkpoint meanwhile. Use a newer one, or set "
                "`training.keep_every`."
            )
        return ConfigError(f"{self.directory}: the checkpoint is damaged ({error}). Use another step.")
