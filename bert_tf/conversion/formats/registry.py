"""The forms of a checkpoint by name, and which one a path has."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol

from bert_tf.config import local_path
from bert_tf.conversion.checkpoint import Checkpoint
from bert_tf.conversion.options import Options
from bert_tf.conversion.tensors import ConversionError


class Form(Protocol):
    """The module of one form."""

    def recognizes(self, path: Path) -> bool:
        """Returns whether `path` looks like this form, by the names of its files."""

    def read(self, path: Path, options: Options) -> Checkpoint:
        """Reads all but the arrays, and checks names and shapes. Raises ConversionError where they are not such."""

    def write(self, checkpoint: Checkpoint, directory: Path, options: Options) -> list[str]:
        """Fills an empty directory; returns the heads that this form has no place for."""


# In the order in which a path is held against them.
_MODULES = {
    "preset": "bert_tf.conversion.formats.preset",
    "keras_hub": "bert_tf.conversion.formats.keras_hub.checkpoint",
    "huggingface": "bert_tf.conversion.formats.huggingface.checkpoint",
    "model_garden": "bert_tf.conversion.formats.model_garden.checkpoint",
    "google_tf1": "bert_tf.conversion.formats.google_tf1",
}
FORMS = tuple(_MODULES)


def form(name: str) -> Form:
    """Returns a form's module. Raises ConversionError for an unknown name."""
    if name not in _MODULES:
        raise ConversionError(f"a form must be one of {', '.join(FORMS)}. Received: {name!r}")
    module: Form = importlib.import_module(_MODULES[name])
    return module


def recognize(path: str | Path) -> str | None:
    """Returns the name of the form that `path` has, None where it has none. Raises ConfigError for a URL."""
    path = local_path(path)
    return next((name for name in FORMS if form(name).recognizes(path)), None)


def read_checkpoint(path: str | Path, name: str | None = None, options: Options | None = None) -> Checkpoint:
    """Reads a checkpoint of any form, its arrays only when they are asked for.

    Args:
        path: of the checkpoint.
        name: of its form; None recognizes it.
        options: what the source does not say.

    Raises:
        ConversionError: where it is none, a damaged one, or one of another architecture.
        ConfigError: for a URL.
    """
    path = local_path(path)
    if not path.exists() and not path.parent.is_dir():
        raise ConversionError(f"{path}: there is no such file or directory.")
    found = name or recognize(path)
    if found is None:
        raise ConversionError(f"{path}: must be a checkpoint of one of the forms {', '.join(FORMS)}. Received: none")
    return form(found).read(path, options or Options())
