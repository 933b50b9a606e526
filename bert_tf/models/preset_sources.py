"""Sources of presets: preset directories, checkpoints of runs, and checkpoints of other programs.

All of them are read in the same way: the header first, then one weight at a time.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from bert_tf.config import ConfigError
from bert_tf.config.files import set_aside
from bert_tf.config.preset_names import (
    CHECKPOINTS_NAME,
    CONFIG_NAME,
    FOREIGN,
    checkpoint_steps,
    find_preset,
)
from bert_tf.models.preset_header import VOCABULARY_NAMES, PresetHeader, deserialize_model, read_header, vocabulary_file
from bert_tf.models.weights import Weights, WeightsFile, read_weights
from bert_tf.storage import preset_path
from bert_tf.text.vocabulary import Vocabulary

WEIGHTS_NAME = "model.weights.h5"
# Imported when they are needed: models import neither training nor conversion.
_CHECKPOINTS = "bert_tf.training.loop.checkpoint_weights"
_CONVERSION = "bert_tf.conversion.in_memory"
# Larger models are built only after a check that the file contains enough numbers. Smaller models cost little memory,
# and building them lets the error name the missing weight.
_LARGE = 10**8


@dataclass(frozen=True)
class PresetSource:
    """A preset whose weights are read on demand.

    Args:
        path: directory or file.
        header: content of config.json, or what another program's files say.
        vocabulary: vocabulary of the same size as the model's token embedding.
        task: content of task.json; None if there is no task.
        weights: weights by their path in the model.
        form: format of another program; empty for a preset or a checkpoint of a run.
        left_out: names of the parts of another program's checkpoint that no model holds, such as optimizer slots.
    """

    path: Path
    header: PresetHeader
    vocabulary: Vocabulary
    task: dict[str, Any] | None
    weights: Weights
    form: str = ""
    left_out: tuple[str, ...] = ()

    def model(self, dtype: Any = None) -> keras.Model:
        """Builds the model and loads its weights.

        Args:
            dtype: Keras dtype policy or its name; defaults to the global policy.

        Returns:
            The model.

        Raises:
            ConfigError: for arguments that the model rejects, and weights that do not match it or its digest.
        """
        self._check_size()
        try:
            model = deserialize_model(self.header.model, dtype)
        except ConfigError as error:
            raise ConfigError(f"{self.path / CONFIG_NAME}: {error}") from error
        read_weights(model, self.weights)
        # Last, because the errors before say more.
        self.check_digest()
        return model

    def announce(self, model: keras.Model) -> None:
        """Prints once that a checkpoint of another program was converted, and the parts that `model` adds or lacks."""
        if not self.form:
            return
        stored, used = set(self.weights.shapes()), {weight.path for weight in model.weights}
        text = "lower-cased text" if self.header.lowercase else "cased text"
        parts = [f"{self.header.kind}, {text}"]
        if new := _parts(used - stored):
            parts.append(f"new: {', '.join(new)}")
        if left_out := [*_parts(stored - used), *_shortened(self.left_out)]:
            parts.append(f"left out: {', '.join(left_out)}")
        _print_once(
            f"Converted {self.path} from the format {self.form} in memory ({'; '.join(parts)}). "
            "`bert-tf convert` saves the result."
        )

    def _check_size(self) -> None:
        least = self.header.least_parameters
        if least > _LARGE:
            stored = sum(map(math.prod, self.weights.shapes().values()))
            if stored < least:
                raise ConfigError(
                    f"{self.weights}: must contain at least {least} numbers according to {CONFIG_NAME}. "
                    f"Received: {stored}"
                )

    def check_digest(self) -> None:
        """Raises ConfigError if the weights are not those of the digest in config.json, if it has one.

        It takes less time than to load the weights.
        """
        wanted = self.header.weights_sha256
        if wanted and (found := self.weights.sha256()) != wanted:
            raise ConfigError(
                f"{self.weights}: changed since the preset was saved: the SHA-256 in {CONFIG_NAME} is {wanted}. "
                f"Received: {found}. Copy the preset again; if you changed the weights yourself, remove "
                f"`weights_sha256` from {CONFIG_NAME}."
            )


def open_preset(name: str | Path) -> PresetSource:
    """Reads everything but the weights of a preset.

    Args:
        name: preset directory, run, `RUN@STEP`, or checkpoint of another program (see `config.preset_names`); also a
            URL.

    Returns:
        The source, whose weights are read on demand.

    Raises:
        ConfigError: for any other name, an unreadable file, an unknown key, or a vocabulary that does not match the
            model; the message names the file and the field.
    """
    path, kind = find_preset(preset_path(name))
    if kind in FOREIGN:
        return importlib.import_module(_CONVERSION).open_checkpoint(path)
    if kind == "checkpoint":
        return _checkpoint(path)
    vocabulary_name = vocabulary_file(path).name
    for file in (CONFIG_NAME, vocabulary_name, WEIGHTS_NAME):
        if not (path / file).is_file():
            missing = "` or `".join(VOCABULARY_NAMES) if file == vocabulary_name else file
            raise ConfigError(f"{path}: not a preset: `{missing}` is missing{_hint(path)}.")
    header, vocabulary, task = read_header(path)
    return PresetSource(path, header, vocabulary, task, WeightsFile(path / WEIGHTS_NAME))


def _checkpoint(path: Path) -> PresetSource:
    if not (path / CONFIG_NAME).is_file():
        raise ConfigError(
            f"{path}: must hold the {CONFIG_NAME} of a whole model. Received: none. Runs of 0.1.0, on features and of "
            "`bert_tf.fit` without `describe` write none. Use the preset at the end of the run."
        )
    header, vocabulary, task = read_header(path)
    weights = importlib.import_module(_CHECKPOINTS).CheckpointWeights(path)
    return PresetSource(path, header, vocabulary, task, weights)


def _hint(path: Path) -> str:
    aside = set_aside(path)
    if aside.is_dir():
        return f" (a save was interrupted; the previous preset is in {aside})"
    for run in (path, path.parent):
        if (run / CHECKPOINTS_NAME).is_dir() and (steps := checkpoint_steps(run / CHECKPOINTS_NAME)):
            names = ", ".join(f"{run}@{step}" for step in steps)
            return f" (the run has not finished; its checkpoints are {names})"
    return ""


def _parts(paths: Iterable[str]) -> list[str]:
    """Returns the names of the top-level layers of weights."""
    return sorted({path.partition("/")[0] for path in paths})


def _shortened(names: tuple[str, ...]) -> list[str]:
    return [f"{len(names)} tensors such as {names[0]}"] if len(names) > 2 else list(names)


@functools.cache
def _print_once(text: str) -> None:
    print(text, file=sys.stderr)
