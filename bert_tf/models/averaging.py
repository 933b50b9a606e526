"""Averages of the weights of several presets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.config import ConfigError, to_dict
from bert_tf.models.preset_sources import PresetSource, open_preset
from bert_tf.models.presets import Preset, loaded


def average_presets(presets: Sequence[str | Path], dtype: Any = None) -> Preset:
    """Averages the weights of several presets of one architecture, such as checkpoints of a run.

    Each weight is the mean in float64, rounded to float32. Only one weight of each preset is in memory at a time. The
    task is that of the first preset, with its thresholds.

    Args:
        presets: at least two names of presets; see `load_preset`.
        dtype: Keras dtype policy of the model or its name; defaults to the global policy.

    Returns:
        The preset with the averaged weights; `save_preset` saves it.

    Raises:
        ConfigError: for fewer than two presets, and for presets with another architecture, vocabulary, casing or task
            than the first one; the message names the difference.

    Example:
        >>> mean = bert_tf.average_presets(["runs/laptop", "runs/laptop"])
        >>> mean.kind, mean.info["average_of"]
        ('BertPretrainer', ['runs/laptop', 'runs/laptop'])
        >>> bert_tf.save_preset(mean.model, "mean", mean.vocabulary, mean.lowercase, mean.task, mean.info)
    """
    if isinstance(presets, str | Path) or len(presets) < 2:
        raise ConfigError(f"`presets` must be a list of at least two presets. Received: {presets!r}")
    sources = [open_preset(name) for name in presets]
    first, expected = presets[0], _described(sources[0])
    for name, source in zip(presets[1:], sources[1:], strict=True):
        described = _described(source)
        for field in sorted(expected | described):
            if described.get(field) != expected.get(field):
                raise ConfigError(
                    f"{name}: `{field}` must be that of {first}, {expected.get(field)!r}. "
                    f"Received: {described.get(field)!r}"
                )
    for source in sources:
        source.check_digest()
    # No file has the digest of the mean.
    header = replace(sources[0].header, weights_sha256="")
    preset = loaded(replace(sources[0], header=header, weights=_Mean(sources)), dtype)
    return replace(preset, info={"average_of": [str(name) for name in presets]})


@dataclass(frozen=True)
class _Mean:
    """Means of the weights of several presets."""

    sources: Sequence[PresetSource]

    def __str__(self) -> str:
        return " + ".join(str(source.weights) for source in self.sources)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self.sources[0].weights.shapes()

    def read(self, name: str) -> np.ndarray:
        first, *others = self.sources
        total = first.weights.read(name).astype(np.float64)
        for source in others:
            # In place, so that another shape is an error.
            total += source.weights.read(name)
        return (total / len(self.sources)).astype(np.float32)

    def sha256(self) -> str:
        return "+".join(source.weights.sha256() for source in self.sources)


def _described(source: PresetSource) -> dict[str, Any]:
    """Returns everything that averaged presets must have in common, by name."""
    task = {f"task.{name}": value for name, value in (source.task or {}).items() if not isinstance(value, float)}
    text = {"vocabulary_sha256": source.vocabulary.fingerprint, "lowercase": source.header.lowercase}
    encoder = {f"model.{name}": value for name, value in to_dict(source.header.config).items()}
    return {"kind": source.header.kind} | encoder | source.header.arguments | text | task
