"""What all models share: keeping themselves in presets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import keras

from bert_tf.models import presets
from bert_tf.text.vocabulary import Vocabulary


class PresetModel(keras.Model):
    """A functional model that is saved to and loaded from a preset directory (see `presets`)."""

    @classmethod
    def from_preset(cls, directory: str | Path, dtype: Any = None) -> Self:
        """Loads a model of this class.

        Args:
            directory: a preset; any kind of preset has a `BertBackbone`, a task model needs one of its own.
            dtype: a Keras dtype policy or its name; the global one when `None`.

        Raises:
            ConfigError: when the directory is no preset, or one of another kind.
        """
        return presets.load_model(directory, cls.__name__, dtype)

    def save_to_preset(
        self,
        directory: str | Path,
        vocabulary: Vocabulary,
        lowercase: bool = True,
        task: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the model to `directory`; arguments and errors are those of `presets.save_preset`."""
        presets.save_preset(self, directory, vocabulary, lowercase, task, info)
