"""Reads checkpoints of other programs as presets, without writing one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bert_tf.config import ConfigError
from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.formats.preset import TABLE, header_of, task_json, text_settings
from bert_tf.conversion.formats.registry import read_checkpoint
from bert_tf.conversion.tensors import ConversionError, expected_shapes
from bert_tf.models.preset_sources import PresetSource


@dataclass(frozen=True)
class ConvertedWeights:
    """Weights of a checkpoint by their path in the model; each is read and converted on demand.

    Args:
        checkpoint: the checkpoint.
    """

    checkpoint: Checkpoint

    def __str__(self) -> str:
        return str(self.checkpoint.path)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of all weights."""
        config = self.checkpoint.config
        shapes = expected_shapes(config, self.checkpoint.heads)
        return {path: TABLE.shape(name, shapes[name], config) for path, name in self._names.items()}

    def read(self, name: str) -> np.ndarray:
        """Returns a weight as float32. Raises ConfigError for damaged bytes, NaN and infinity."""
        try:
            return TABLE.array(self._names[name], self.checkpoint)
        except ConversionError as error:
            raise ConfigError(str(error)) from error

    def sha256(self) -> str:
        """Returns the SHA-256 of the names and the values of all weights, independent of the format."""
        digest = hashlib.sha256()
        for name in sorted(self._names):
            digest.update(name.encode() + b"\0" + self.read(name).astype("<f4").tobytes())
        return digest.hexdigest()

    @cached_property
    def _names(self) -> dict[str, str]:
        """The original's names by the weights' paths."""
        return {TABLE.name(name): name for name in expected_shapes(self.checkpoint.config, self.checkpoint.heads)}


def open_checkpoint(path: Path) -> PresetSource:
    """Reads everything but the weights of a checkpoint of another program.

    Args:
        path: checkpoint of any format but `preset`.

    Returns:
        The source, equal to that of a preset which `bert-tf convert` writes.

    Raises:
        ConfigError: for a checkpoint that cannot be read or has no vocabulary.
    """
    try:
        checkpoint = read_checkpoint(path)
        header, (vocabulary, _) = header_of(checkpoint), text_settings(checkpoint)
    except ConversionError as error:
        raise ConfigError(str(error)) from error
    task = task_json(checkpoint, Options())
    return PresetSource(
        checkpoint.path,
        header,
        vocabulary,
        None if task is None else dict(task),
        ConvertedWeights(checkpoint),
        checkpoint.form,
        checkpoint.left_out,
    )
