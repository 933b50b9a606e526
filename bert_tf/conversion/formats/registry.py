"""Registry of the checkpoint formats, and detection of a path's format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from bert_tf.config.preset_names import preset_directory
from bert_tf.conversion.checkpoint import Checkpoint, Options
from bert_tf.conversion.tensors import ConversionError


class Form(Protocol):
    """The module of a format."""

    def recognizes(self, path: Path) -> bool:
        """Returns True if `path` looks like this format, by the names of its files."""

    def read(self, path: Path, options: Options) -> Checkpoint:
        """Reads all but the arrays and checks names and shapes. Raises ConversionError for an invalid checkpoint."""

    def write(self, checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
        """Writes to an empty directory and returns the heads that are lost. Raises ConversionError if it cannot."""


# In the order of detection.
_MODULES = {
    "preset": "bert_tf.conversion.formats.preset",
    "keras_hub": "bert_tf.conversion.formats.keras_hub.checkpoint",
    "huggingface": "bert_tf.conversion.formats.huggingface.checkpoint",
    "model_garden": "bert_tf.conversion.formats.model_garden.checkpoint",
    "google_tf1": "bert_tf.conversion.formats.google_tf1",
}
FORMS = tuple(_MODULES)


def form(name: str) -> Form:
    """Returns the module of a format. Raises ConversionError for an unknown name."""
    if name not in _MODULES:
        raise ConversionError(f"a format must be one of {', '.join(FORMS)}. Received: {name!r}")
    module: Form = importlib.import_module(_MODULES[name])
    return module


def recognize(path: str | Path) -> str | None:
    """Returns the name of the format of `path`; None if it is unknown. Raises ConfigError for a URL."""
    path = preset_directory(path)
    return next((name for name in FORMS if form(name).recognizes(path)), None)


def read_checkpoint(path: str | Path, name: str | None = None, options: Options | None = None) -> Checkpoint:
    """Reads a checkpoint of any format; its arrays are read on demand.

    Args:
        path: path of the checkpoint; `RUN@STEP` for a checkpoint of a run.
        name: format of the checkpoint; None detects it.
        options: settings for everything that the source does not define.

    Returns:
        The checkpoint.

    Raises:
        ConversionError: for a path that is not a checkpoint, is damaged or has another architecture.
        ConfigError: for a URL.

    Example:
        >>> checkpoint = bert_tf.read_checkpoint("runs/laptop")
        >>> checkpoint.form, checkpoint.config.num_layers
        ('preset', 2)
        >>> checkpoint.array("bert/pooler/dense/kernel").shape
        (128, 128)
    """
    path = preset_directory(path)
    if not path.exists() and not path.parent.is_dir():
        raise ConversionError(f"{path}: no such file or directory.")
    form_name = name or recognize(path)
    if form_name is None:
        raise ConversionError(f"{path}: must be a checkpoint in one of the formats {', '.join(FORMS)}. Received: none")
    return form(form_name).read(path, options or Options())
