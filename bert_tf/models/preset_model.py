"""Base class of models that are saved as presets."""

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
            directory: preset directory. A `BertBackbone` can be loaded from a preset of any kind; other models require
                a preset of their own kind.
            dtype: Keras dtype policy or its name; defaults to the global policy.

        Returns:
            The model.

        Raises:
            ConfigError: if the directory is not a preset, or a preset of another kind.
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
        """Saves the model as a preset; see `presets.save_preset`.

        Args:
            directory: output directory, which must be missing, empty or a preset.
            vocabulary: vocabulary of the same size as the model's token embedding.
            lowercase: whether the tokenizer lower-cases.
            task: content of task.json; no file is written if None.
            info: additional information that JSON can represent.

        Raises:
            ConfigError: if the vocabulary does not match the model, or `directory` contains other files.
        """
        presets.save_preset(self, directory, vocabulary, lowercase, task, info)
